"""A running application continues with other code: `wallaroo run --reload` and `wallaroo promote`.

`changes` notices that a file has changed, `trial` checks the application in a process of its own,
`switch` lets the run go on with it, or back. `reloader` does so after each change, `promoter` on
request. `signature` tells whether the gateway needs other code, too.
"""
