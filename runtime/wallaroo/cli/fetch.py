"""`wallaroo fetch`: fetches what some settings need, and the package does not bring."""

from __future__ import annotations

import click

from wallaroo.engine.spark import s3


@click.command()
@click.argument("what", type=click.Choice(["s3"]), metavar="s3")
def fetch(what: str) -> None:  # noqa: ARG001  (there is one yet)
    """Fetch the jars with which Spark keeps state on S3, to the user's cache.

    Maven brings them, from where its settings say: 35 jars of 12 MB. Their checksums are compared
    with those that this version of wallaroo has.

    \b
    Example:
      wallaroo fetch s3
      wallaroo run apps/word_count --state-dir s3a://bucket/word-count
    """  # noqa: D301  (click reads \b)
    click.echo(s3.fetch())
