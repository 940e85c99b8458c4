"""`wallaroo run --reload`: a running application goes on with other code whenever it changes.

`changes` notices that a file has changed, `trial` checks the application in a process of its own,
`reloader` lets the run go on with it. `served` tells whether the gateway needs other code, too.
"""
