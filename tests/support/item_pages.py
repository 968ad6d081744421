"""Pages that say which item they are, and a spider that notes them."""

from __future__ import annotations

from crawling import Page, words

__all__ = ["ITEMS", "item"]

# Items are what pages say they are; a request that is not sent is noted.
ITEMS = """
    def parse(self, response):
        self.note("parsed", response)
        for number in response.css("[data-item]::attr(data-item)").getall():
            self.note("item", item=number)
            yield {"item": number}
        yield from self.links(response)
"""


def item(number: int, *links: str, title: str = "") -> Page:
    anchors = "".join(f'<p><a href="{link}">to {link}</a></p>' for link in links)
    html = (
        f"<!doctype html><html><head><title>{title or f'Thing {number}'}</title></head><body><main>"
        f'<h1 data-item="{number}">thing</h1><p>{words(number)}</p>{anchors}</main></body></html>'
    )
    return Page(html.encode())
