"""The web console: pages on the management API, part of the package.

Plain HTML, CSS and ES modules of our own, served as they stand: there is no build step, and nothing is
fetched from elsewhere. `js/api.js` is the one module that talks to `/v1`, so whatever the console can do,
curl can do. `js/views/` has a file for each view, `js/draw/` one for each drawing, `js/kit/` the parts that
views are made of. Serving the files is left to `server/`.
"""
