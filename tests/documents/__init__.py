"""Tools for the documents, and the tests that hold the documents to the code.

`prose` measures sentences, `reference` writes the generated pages, `pages` finds what there is to read.
"""
