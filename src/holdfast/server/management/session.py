"""`/v1/session`: who asks, what the token allows, what answers, and where `/v1/changes` goes on from now.

Whoever reads that first and then what he shows misses no change in between.
"""

from holdfast import __version__
from holdfast.server.management.call import Call, Json


async def get(call: Call) -> Json:
    grant, services, feed = call.grant, call.services, call.node.observed.feed
    feed.expect()
    shown: Json = {
        "name": grant.name,
        "readOnly": grant.read_only,
        "prefix": grant.prefix,
        "isOpen": services.is_open,
        "version": __version__,
        "store": services.store_kind,
        "now": call.now(),
        "after": feed.name_of(feed.number),
    }
    return shown | ({"codecUrl": services.codec_url} if services.codec_url else {})
