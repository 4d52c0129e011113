"""The report as one HTML file that needs no server and no network."""

from .render import asset, policy, render, write_page

__all__ = ["asset", "policy", "render", "write_page"]
