"""Reports: one structure that a terminal and an HTML page are drawn from.

differences -> texts (regions, sides) -> parts (frozen values) -> html, JSON -> file
"""
