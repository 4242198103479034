"""Workers of plain tasks in this process, on a real node: claims, results, codes, cancels, drains."""
