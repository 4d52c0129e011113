"""The update of the policy; needs torch."""
