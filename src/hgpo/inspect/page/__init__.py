"""The report as one HTML file that needs no server and no network."""

from .render import render, write_page

__all__ = ["render", "write_page"]
