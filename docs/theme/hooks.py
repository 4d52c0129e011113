"""What the build of the pages adds to mkdocs (mkdocs.yml names this file).

- Formulas become MathML, which browsers set by themselves: no script, no font, nothing fetched.
- `<!-- made from the code: NAME -->` becomes the part of the reference that `reference.py` makes.
- Files of the repository outside docs/ that a page links to become pages of their own.
- Tables get a box of their own, in which they scroll.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
from formulas import set_formulas
from reference import PARTS
from sources import as_page, linked_files, page_of, point_inside

ROOT = Path(__file__).resolve().parents[2]
MADE = re.compile(r"<!-- made from the code: (\w+) -->")


def on_files(files: Files, config: Any) -> Files:
    """Add a page for every file of the repository that some page links to."""
    for path in linked_files(ROOT):
        files.append(File.generated(config, page_of(path), content=as_page(ROOT, path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put in what is made from the code, and point links to files outside docs/ to their pages."""
    made = MADE.sub(lambda found: PARTS[found[1]](), markdown)
    return point_inside(made, ROOT, page.file.src_uri)


def on_page_content(html: str, **_: Any) -> str:
    """Set the formulas and box the tables; names in code stay whole (browsers break `--option` after its dashes)."""
    html = set_formulas(html)
    short = r"<code>(?=[^\s<]{1,28}</code>)"
    alone = r"(?<=<td>)((?:<a id=[^>]*></a>)?)<code>(?=[^\s<]+</code></td>)"
    html = re.sub(short, '<code class="name">', re.sub(alone, r'\1<code class="name">', html))
    return re.sub(r"<table>.*?</table>", r'<div class="wide">\g<0></div>', html, flags=re.DOTALL)
