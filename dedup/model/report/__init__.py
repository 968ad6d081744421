"""What a person is shown of texts and numbers: differences of texts, and pages of HTML.

differences -> texts (regions, sides) -> page (one file of HTML)
"""
