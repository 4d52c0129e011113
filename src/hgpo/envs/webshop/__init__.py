"""WebShop without Java or a web server: catalogue, search, pages, score, and a generated shop."""

from .catalogue import Catalogue
from .env import WebShop

__all__ = ["Catalogue", "WebShop"]
