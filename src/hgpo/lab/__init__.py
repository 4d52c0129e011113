"""The estimator lab: small worlds whose true advantages are known, and what estimators make of them."""
