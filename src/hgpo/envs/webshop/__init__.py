"""WebShop without Java or a web server: catalogue, search, pages, score, and a generated shop."""
