"""What the add-on costs a crawl: the same crawl with and without it."""
