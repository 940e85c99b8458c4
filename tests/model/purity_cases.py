# ruff: noqa: E501 - sources, as they are read
"""Decoders and key functions as developers write them: pure ones, and odd but legal impure ones."""

from __future__ import annotations

PURE = [
    "def decode(payload): return payload",
    "def decode(payload): return payload.decode()",
    "def decode(payload): return payload.decode('utf-8', errors='replace').strip()",
    "def decode(payload): return str(payload, 'latin-1')",
    "decode = lambda payload: payload.decode('ascii')",
    "def decode(payload): return struct.unpack('>IQ', payload)",
    "def decode(payload): return struct.unpack_from('>I', payload, 4)[0]",
    "def decode(payload): return json.loads(payload)",
    "def decode(payload): return json.loads(payload.decode())['events'][0]",
    "def decode(payload): return int.from_bytes(payload, 'big')",
    "def decode(payload): return int.from_bytes(payload[:4], byteorder='big', signed=True)",
    "def decode(payload): return bytes.fromhex(payload.decode())",
    "def decode(payload): return base64.b64decode(payload)",
    "def decode(payload): return uuid.UUID(payload.decode())",
    "def decode(payload): return uuid.UUID(bytes=payload[:16])",
    "def decode(payload): return datetime.datetime.fromisoformat(payload.decode())",
    "def decode(p): return datetime.datetime.fromtimestamp(int(p), datetime.timezone.utc)",
    "def decode(p): return datetime.datetime.fromtimestamp(float(p), tz=datetime.UTC)",
    "def decode(p): return datetime.datetime.strptime(p.decode(), '%Y-%m-%d %H:%M:%S')",
    "def decode(payload): return tuple(map(int, payload.split(b',')))",
    "def decode(payload): return [int(x) for x in payload.split()]",
    "def decode(p): return {k: int(v) for k, v in (x.split(':') for x in p.decode().split(','))}",
    "def decode(p): return dict(zip(('a', 'b'), p.decode().split(',')))",
    "def decode(p): return dict(pair.split('=', 1) for pair in p.decode().split('&'))",
    "def decode(p): return frozenset(p.decode().split())",
    "def decode(p): return math.floor(float(p))",
    "def decode(p): return f'{int(p):>08d}' + '{}-{}'.format(len(p), p[:1]) + '%s' % p",
    "def decode(p): return None if not p else p.decode()",
    """
def decode(payload):
    try:
        number = int(payload)
    except (ValueError, IndexError):
        return None
    return number
""",
    """
def decode(payload):
    items = []
    for line in payload.decode().splitlines():
        name, _, value = line.partition('=')
        items.append((name, value))
    items.sort()
    return items
""",
    """
def decode(payload):
    message = json.loads(payload)
    message['seen'] = True
    message.setdefault('user', 'nobody')
    return message
""",
    """
def decode(payload):
    at, total = 0, 0
    while at < len(payload):
        size = payload[at]
        total += size
        at += size + 1
    return total
""",
    """
HEAD = struct.Struct('>IB')
SIZE = HEAD.size if False else 5
def decode(payload):
    number, kind = HEAD.unpack(payload[:5])
    return number, kind, payload[5:]
""",
    """
FIELDS = ('user', 'text')
KINDS, LIMIT = frozenset({'a', 'b'}), 2 * 10 + 1
def decode(payload):
    parts = payload.decode().split(',')
    if parts[0] not in KINDS or len(parts) > LIMIT:
        return None
    return dict(zip(FIELDS, parts))
""",
    """
unpack = struct.Struct('>I').unpack
text_of = bytes.decode
def decode(payload):
    return unpack(payload[:4])[0], text_of(payload[4:])
""",
    """
LINE = re.compile(r'(\\w+)=(\\d+)')
def decode(payload):
    found = LINE.match(payload.decode())
    if found is None:
        raise ValueError(f'{payload!r} is not a pair')
    return found.group(1), int(found[2])
""",
    """
class Message(NamedTuple):
    user: str
    text: str = ''
    @property
    def words(self):
        return self.text.split()
def decode(payload):
    return Message(*payload.decode().split(','))
def key(message):
    return message.user
""",
    """
Order = collections.namedtuple('Order', 'symbol price')
def decode(payload):
    symbol, price = payload.decode().split()
    return Order(symbol, float(price))._replace(price=1.0)
""",
    """
class Order(NamedTuple):
    a: int
    b: int
make = partial(tuple.__new__, Order)
def decode(payload):
    return make(struct.unpack('>II', payload))
def key(message):
    return message.a
""",
    """
@dataclass
class Message:
    user: str
    number: int = 3
    tags: list = field(default_factory=list)
def decode(payload):
    return Message(**json.loads(payload))
def key(message):
    return message.user.lower()
""",
    """
@dataclass(frozen=True, slots=True)
class Message:
    user: str
    number: int
    def __post_init__(self):
        if self.number < 0:
            raise ValueError(f'negative: {self.number}')
def decode(payload):
    user, number = payload.decode().split(',')
    return Message(user, int(number))
def key(message):
    return f'{message.user}:{message.number % 10}'
""",
    """
class Message:
    __slots__ = ('user', 'number')
    def __init__(self, user, number):
        self.user = user
        self.number = int(number)
    def is_odd(self):
        return self.number % 2 == 1
    def __eq__(self, other):
        return isinstance(other, Message) and self.user == other.user
    def __hash__(self):
        return hash(self.user)
    def __repr__(self):
        return f'Message({self.user!r})'
def decode(payload):
    return Message(*payload.decode().split(','))
def key(message):
    return int(message.number) % 10 if message.is_odd() else str(message)
""",
    """
class Message:
    LIMIT = 10
    def __init__(self, payload):
        self.items = []
        for part in payload.split(b',')[:self.LIMIT]:
            self.items.append(part.decode())
    @classmethod
    def parse(cls, payload):
        return cls(payload)
    @staticmethod
    def of(payload):
        return Message(payload)
    def now(self):
        return time.time()
def decode(payload):
    return Message.parse(payload) if payload else Message.of(b'')
def key(message):
    return message.items[0]
""",
    """
class Side(Enum):
    BUY = 1
    SELL = 2
class Kind(IntEnum):
    A = enum.auto()
def decode(payload):
    side = Side(payload[0])
    if side is Side.SELL:
        return Side['BUY'], Kind.A
    return side, payload[1:]
def key(message):
    return message[0].name
""",
    """
class Wrong(Exception):
    '''Not what it ought to be.'''
def wrong(payload, due: struct.Struct):
    return Wrong(f'{due} is due, got {payload}')
HEAD = struct.Struct('>I')
def decode(payload):
    try:
        return HEAD.unpack(payload)
    except struct.error:
        raise wrong(payload, HEAD) from None
""",
]

PURE += [
    "def decode(p): return sorted(p.split(), reverse=True)",
    "def decode(p): return max(map(int, p.split(b',')), default=0)",
    """
def decode(p):
    x = []
    def_ = x
    for y in {1: 'a'}: x.append(y)
    return x
""",
    """
@dataclass
class B:
    a: int
@dataclass
class M(B):
    b: str = 'x'
def decode(p): return M(1, b=p.decode())
""",
    """
@dataclass(order=True, kw_only=True)
class M:
    a: int
    b: str = field(default='x', repr=False)
def decode(p): return M(a=1)
""",
    """
@dataclass(frozen=True)
class M:
    a: int
def decode(p): return {M(1): 2}
""",
    """
@dataclass(slots=True)
class M:
    a: int = 5
    def double(self): return self.a * 2
def decode(p): return M(2).double()
""",
    """
class S(enum.StrEnum):
    A = 'a'
    B = 'b'
def decode(p): return S(p.decode())
""",
    """
class C(enum.Flag):
    A = 1
    B = 2
def decode(p): return C(p[0])
""",
    """
class M(NamedTuple):
    a: int
    b: tuple = ()
    def total(self): return self.a + len(self.b)
def decode(p): return M(a=1, b=(2,)).total()
""",
    """
class M(NamedTuple):
    a: int
    def __str__(self): return f'<{self.a}>'
def decode(p): return M(int(p))
def key(m): return f'{m}'
""",
    """
class Base:
    def __init__(self, a): self.a = a
class M(Base):
    def b(self): return self.a
def decode(p): return M(p)
def key(m): return m.b()
""",
    """
def decode(p):
    try:
        kind, rest = p.split(b' ', 1)
        return kind.decode(), json.loads(rest)
    except (ValueError, json.JSONDecodeError) as error:
        raise ValueError(f'bad: {error}') from error
""",
]

PURE_KEYS = [
    "def key(message): return message.symbol",
    "def key(message): return message[0]",
    "def key(message): return message['user']",
    "def key(message): return message.get('user', 'nobody')",
    "def key(message): return message.name.lower()",
    "def key(message): return int(message.id) % 10",
    "def key(message): return f\"{message['a']}-{message['b']:>5}\"",
    "def key(message): return (message['a'], message['b'])",
    "def key(message): return tuple(sorted(message['tags']))",
    "def key(message): return ','.join(str(x) for x in message['tags'])",
    "def key(message): return hash(message['user'])",
    "def key(message): return None",
    "key = lambda message: message['user']",
    """
Key = collections.namedtuple('Key', 'user day')
def key(message):
    return Key(message['user'], message['day'][:10])
""",
    """
KNOWN = frozenset(os.listdir('/'))
def key(message):
    name = message['user']
    return name if name in KNOWN else shorter(name)
def shorter(name):
    return name[:1]
""",
]

IMPURE = [
    # clocks, random numbers, identities
    "def decode(p): return (time.time(), p)",
    "def decode(p): return (datetime.datetime.now(), p)",
    "def decode(p): return datetime.datetime.now(tz=datetime.UTC)",
    "def decode(p): return datetime.date.today()",
    "def decode(p): return (uuid.uuid4(), p)",
    "def decode(p): return (uuid.uuid1().hex, p)",
    "def decode(p): return (random.randrange(8), p)",
    "def decode(p): return (os.urandom(4), p)",
    "def decode(p): return (os.getpid(), p)",
    "def decode(p): return (threading.get_ident(), p)",
    "def decode(p): return os.environ.get('SHARD', '0') + p.decode()",
    "def decode(p): return sys.argv[0] + p.decode()",
    "def decode(p): return hash(p.decode()) % 8",
    "def decode(p): return id(p)",
    "def decode(p): return repr(object())",
    "def decode(p): return __name__ + p.decode()",
    "def decode(p): return open('/etc/hostname').read()",
    "def decode(p): print(p); return p",
    "def decode(p): return input()",
    # time zone, locale, codecs
    "def decode(p): return datetime.datetime.fromtimestamp(int(p))",
    "def decode(p): return datetime.datetime.fromtimestamp(int(p), None)",
    "def decode(p): return datetime.datetime.fromisoformat(p.decode()).timestamp()",
    "def decode(p): return datetime.datetime.fromisoformat(p.decode()).astimezone()",
    "def decode(p): return datetime.datetime.fromisoformat(p.decode()).strftime('%A')",
    "def decode(p): return f'{datetime.datetime.fromisoformat(p.decode()):%A}'",
    "def decode(p): return datetime.datetime.strptime(p.decode(), '%d %B %Y')",
    "def decode(p): return f'{int(p):n}'",
    "def decode(p): return '{:n}'.format(int(p))",
    "def decode(p): return p.decode('my-own-codec')",
    "def decode(p): return p.decode(errors='my-own-handler')",
    "def decode(p): return p[1:].decode(p[:1].decode())",
    "def decode(p): return bytes.decode(p, 'my-own-codec')",
    "text_of = bytes.decode\ndef decode(p): return text_of(p, 'my-own-codec')",
    "def decode(p): return str(*[p, 'my-own-codec'])",
    "def decode(p): return p.decode(*['my-own-codec'])",
    "def decode(p): return list(map(str, [p], ['my-own-codec']))",
    "def f(m): return os.urandom(1)\ndef decode(p): return re.sub(*[b'x', f], p)",
    "S = struct.Struct('>I')\nS.__init__('<I')\ndef decode(p): return S.unpack(p)",
    "class M:\n    def __init__(self, p): self.p = p\n    def __eq__(self, other):\n"
    "        for x in other:\n            self.p = x\n            break\n        return True\n"
    "def decode(p):\n    m = M(p)\n    m == set(p.decode().split())\n    return m",
    "class M:\n    def __getitem__(self, at): return {'a', 'b'}\n"
    "def decode(p): return [x for x in M()[0]]",
    "class M:\n    def __init__(self, a): self.a = a\n    def __hash__(self):\n"
    "        return hash(self.a) % 2\n    def __eq__(self, other): return True\n"
    "def decode(p): return len({M('a'): 1, M('b'): 2})",
    # names that are not what they seem
    "clock = time.time\ndef decode(p): return clock()",
    "def decode(p):\n    f = time.time\n    return f()",
    "def decode(p, now=time.time()): return (now, p)",
    "def decode(p, *, made=[]):\n    made.append(p)\n    return made",
    "def decode(p, clock=time.time): return clock()",
    "STARTED = time.time()\ndef decode(p): return (STARTED, p)",
    "SHARD = os.getpid() % 4\ndef decode(p): return (SHARD, p)",
    "SALT = int(os.environ.get('SALT', '1'))\ndef decode(p): return SALT",
    "HEAD = struct.Struct(random.choice(['>I', '<I']))\ndef decode(p): return HEAD.unpack(p)",
    "int = id\ndef decode(p): return int(p)",
    "def int(p): return time.time()\ndef decode(p): return int(p)",
    "def decode(p): return len(p)\ndef set_up():\n    global len\n    len = id",
    "N = 1\ndef decode(p): return N\ndef count():\n    global N\n    N += 1",
    "N = 1\ndef decode(p): return N\nN = 2",
    "N = 1\nN += 1\ndef decode(p): return N",
    "for N in range(3): pass\ndef decode(p): return N",
    "if os.getpid() % 2:\n    N = 1\nelse:\n    N = 2\ndef decode(p): return N",
    "if os.getpid():\n    N = 1\ndef decode(p): return N",
    "with open(__file__) as N: pass\ndef decode(p): return N",
    "N = 1\n[N := x for x in (2, 3)]\ndef decode(p): return N",
    "N = 1\nglobals()['N'] = 1\ndef decode(p): return N",
    "N = 1\nexec('N = 1')\ndef decode(p): return N",
    "import builtins\ndef decode(p): return len(p)",
    "from math import *\ndef decode(p): return floor(len(p))",
    "def f(p): return p\nif os.getpid() % 2:\n    def f(p): return p[1:]\ndef decode(p): return f(p)",
    "N = 1\nsetattr(sys.modules[__name__], 'N', 1)\ndef decode(p): return N",
    "def decode(p): return struct.unpack('>I', p)\ndef patch(): struct.unpack = len",
    "f = g = len\ndef decode(p): return f(p)\nf = id",
    "def decode(p): return eval(p)",
    "def decode(p): return getattr(time, 'time')()",
    "def decode(p): return __import__('time').time()",
    "def decode(p):\n    import time\n    return time.time()",
    "def decode(p):\n    from time import time\n    return time()",
    # state
    "SEEN = []\ndef decode(p):\n    SEEN.append(p)\n    return len(SEEN)",
    "CACHE = {}\ndef decode(p): return CACHE.setdefault(p, {})",
    "SHARED = {'a': 1}\ndef decode(p): return SHARED",
    "N = 0\ndef decode(p):\n    global N\n    N += 1\n    return N",
    "numbers = itertools.count()\ndef decode(p): return (next(numbers), p)",
    "def decode(p):\n    decode.calls = 1\n    return p",
    "@lru_cache\ndef helper(p): return [p]\ndef decode(p): return helper(p)",
    "@lru_cache\ndef decode(p): return [p]",
    "class Counter:\n    n = 0\n    def __call__(self, p):\n        self.n += 1\n        return self.n\n"
    "decode = Counter()",
    "class Counter:\n    n = 0\n    def __call__(self, p):\n        self.n += 1\n        return self.n\n"
    "count = Counter()\ndef decode(p): return count(p)",
    "def make():\n    n = 0\n    def decode(p):\n        nonlocal n\n        n += 1\n        return n\n"
    "    return decode\ndecode = make()",
    "def make(pid):\n    return lambda p: (pid, p)\ndecode = make(os.getpid())",
    "decode = partial(max, time.time())",
    "rng = random.Random(7)\ndef decode(p): return rng.random()",
    "def decode(p): return datetime.datetime.utcnow()",
    "def decode(p): return [*map(datetime.datetime.fromtimestamp, p)]",
    "def decode(p): return p.decode().encode('idna')",
    "class M:\n    pass\ndef decode(p):\n    make = M\n    return make()",
    "def decode(p): return p.__hash__()",
    "class M:\n    n = 0\n    @classmethod\n    def of(cls, p):\n        cls.n += 1\n"
    "        return cls.n\ndef decode(p): return M.of(p)",
    "def decode(p): return time.strftime('%Y') + p.decode()",
    "def decode(p): return os.path.exists(p)",
    "def decode(p): return math.inf if sys.getrecursionlimit() > len(p) else 0",
    "def decode(p): return struct.Struct('>I')",
    # sets and addresses
    "def decode(p): return list(set(p.decode().split()))",
    "def decode(p): return ','.join({x for x in p.decode().split()})",
    "def decode(p): return [x for x in frozenset(p.decode().split())]",
    "def decode(p):\n    first, *rest = set(p.decode().split())\n    return first",
    "def decode(p): return set(p.decode().split()).pop()",
    "def decode(p): return str(set(p.decode().split()))",
    "def decode(p): return '%s' % set(p.decode().split())",
    "def decode(p): return f'{frozenset(p.decode().split())}'",
    "def decode(p): return '{}'.format({*p.decode().split()})",
    "def decode(p): return max({*p.decode().split()}, key=len)",
    "WORDS = frozenset({'a', 'b'})\ndef decode(p): return tuple(WORDS)",
    "WORDS = (1, frozenset({'a', 'b'}))\ndef decode(p): return [x for x in WORDS[1]]",
    "def decode(p):\n    a = {'all': set(p.decode().split())}\n    return [x for x in a['all']]",
    "def decode(p):\n    a = []\n    b = a\n    b.append(set(p.decode().split()))\n    return str(a)",
    "def put(a, x): a.append(x)\ndef decode(p):\n    a = []\n    put(a, set(p.split()))\n"
    "    return list(a[0])",
    "S = struct.Struct('>I')\ndef decode(p): return str(S)",
    "class M:\n    pass\ndef decode(p): return f'{M()}'",
    "class M:\n    pass\ndef decode(p): return [repr(M())]",
    "def decode(p): return f'{p.split}'",
    "def decode(p): return str(p.split)",
    "def decode(p): return str(x for x in p)",
    "A = 'a'\ndef decode(p): return p.decode() is A",
    "def decode(p):\n    x = p[:1]\n    return x is p",
    # what is used up, or is a view of something else
    "def decode(p): return iter(p)",
    "def decode(p): return (x for x in p)",
    "def decode(p): return map(int, p.split())",
    "def decode(p): return zip(p, p)",
    "def decode(p): return [reversed(p)]",
    "def decode(p): return {'items': enumerate(p)}",
    "def decode(p): yield p",
    "async def decode(p): return p",
    "def decode(p): return memoryview(p)",
    "def decode(p): return json.loads(p).items()",
    "def decode(p): return collections.defaultdict(list)",
    # functions that are handed on
    "def decode(p): return sorted(p.split(), key=lambda x: random.random())",
    "def decode(p): return list(map(lambda x: time.time(), p))",
    "def decode(p): return list(map(random.choice, p.split()))",
    "def decode(p): return json.loads(p, object_hook=uuid.uuid4)",
    "def decode(p): return json.loads(p, parse_float=lambda x: time.time())",
    "def decode(p): return re.sub(b'x', random.randbytes, p)",
    "def f(m): return os.urandom(1)\ndef decode(p): return re.sub(b'x', f, p)",
    "def decode(p): return max(p.split(), key=id)",
    "def decode(p): return min(p.split(), key=hash)",
    # errors that depend on the machine
    "def decode(p):\n    try:\n        return json.loads(p)\n    except RecursionError:\n"
    "        return None",
    "def decode(p):\n    try:\n        return json.loads(p)\n    except Exception:\n        return None",
    "def decode(p):\n    try:\n        return json.loads(p)\n    except:\n        return None",
    "def decode(p):\n    try:\n        return bytes(int(p))\n    except MemoryError:\n        return b''",
    "def decode(p):\n    try:\n        return json.loads(p)\n    finally:\n        return 1",
    "def decode(p):\n    return decode(p[1:]) if p else 0",
    "S = struct.Struct('>I')\ndef f(): raise ValueError(f'{S}')\n"
    "def decode(p):\n    try:\n        return f()\n    except ValueError as e:\n        return str(e)",
    "def decode(p): return [ValueError(p)]",
    # classes
    "class M:\n    count = 0\n    def __init__(self, p):\n        M.count += 1\n        self.p = p\n"
    "def decode(p): return M(p)",
    "class M:\n    count = 0\n    def __init__(self, p):\n        self.p = p\n"
    "        type(self).count += 1\ndef decode(p): return M(p)",
    "class M:\n    seen = []\n    def __init__(self, p):\n        self.seen.append(p)\n"
    "def decode(p): return M(p)",
    "class M:\n    made = time.time()\n    def __init__(self, p):\n        self.p = p\n"
    "def decode(p):\n    m = M(p)\n    return m.made",
    "class M:\n    def __init__(self, p):\n        self.p, self.at = p, time.time()\n"
    "def decode(p): return M(p)",
    "class M:\n    def __new__(cls, p): return object.__new__(cls)\ndef decode(p): return M()",
    "class M:\n    def __init__(self, p):\n        self.p = p\n    @property\n"
    "    def shard(self): return random.random()\ndef decode(p): return M(p).shard",
    "class M:\n    def __init__(self, p):\n        self.p = p\n"
    "    def __getattr__(self, name): return time.time()\ndef decode(p): return M(p).other",
    "class M:\n    def __eq__(self, other): return random.random() < .5\n"
    "def decode(p): return M() == M()",
    "class M:\n    def __setattr__(self, name, value): pass\ndef decode(p): return M()",
    "class Meta(type):\n    def __call__(cls, *a): return time.time()\n"
    "class M(metaclass=Meta): pass\ndef decode(p): return M()",
    "class Base:\n    def __init__(self): self.at = time.time()\nclass M(Base): pass\n"
    "def decode(p): return M()",
    "class Clock:\n    def __get__(self, *a): return time.time()\nclass M:\n    at = Clock()\n"
    "def decode(p): return M().at",
    "class M(dict):\n    def __missing__(self, k): return time.time()\n"
    "def decode(p): return M()['a']",
    "class M(NamedTuple):\n    p: bytes\n    at: float = time.time()\ndef decode(p): return M(p)",
    "M = collections.namedtuple('M', 'p at', defaults=[time.time()])\ndef decode(p): return M(p)",
    "class M(NamedTuple):\n    p: bytes\n    @property\n    def now(self): return time.time()\n"
    "def decode(p): return M(p).now",
    "@dataclass\nclass M:\n    p: bytes\n    at: float = time.time()\ndef decode(p): return M(p)",
    "@dataclass\nclass M:\n    p: bytes\n    at: float = field(default=time.time())\n"
    "def decode(p): return M(p)",
    "@dataclass\nclass M:\n    p: bytes\n    at: float = field(default_factory=time.time)\n"
    "def decode(p): return M(p)",
    "@dataclass\nclass M:\n    p: bytes\n    id: uuid.UUID = field(default_factory=uuid.uuid4)\n"
    "def decode(p): return M(p)",
    "@dataclass\nclass M:\n    p: bytes\n    def __post_init__(self): self.at = time.time()\n"
    "def decode(p): return M(p)",
    "@dataclass\nclass M:\n    p: bytes\nM.__init__ = lambda self, p: print(p)\n"
    "def decode(p): return M(p)",
    "def stamped(cls):\n    cls.at = time.time()\n    return cls\n@stamped\n@dataclass\nclass M:\n"
    "    p: bytes\ndef decode(p): return M(p)",
    "@dataclass\nclass M:\n    p: bytes\n    others: set = field(default_factory=set)\n"
    "def decode(p):\n    m = M(p)\n    m.others.update(p.decode().split())\n    return [*m.others]",
    "class E(Enum):\n    A = os.getpid()\ndef decode(p): return E.A.value",
    "class E(Enum):\n    A = 1\n    @classmethod\n    def _missing_(cls, v):\n"
    "        return random.choice([cls.A])\ndef decode(p): return E(p)",
    "class W(Exception):\n    def __init__(self, p): print(p)\ndef decode(p): raise W(p)",
    "def f():\n    class M:\n        pass\n    return M\nM = f()\ndef decode(p): return M()",
    "def decode(p): return p.__class__",
    "def decode(p): return type(p)(p)",
    "def decode(p): return (lambda: time.time())()",
    "def decode(p):\n    def now(): return time.time()\n    return now()",
    "def decode(p):\n    with threading.Lock():\n        return p",
    "def decode(p):\n    [time for time in p]\n    return time.time()",
    "SHARED = {}\ndef decode(p):\n    [SHARED for SHARED in p]\n    return SHARED",
    "def decode(p): return p if __debug__ and sys.flags.optimize else None",
    """
class C(enum.Flag):
    A = 1
    B = 2
class E(enum.Enum):
    A = uuid.uuid4()
def decode(p): return E.A
""",
    """
class M(NamedTuple):
    a: object
def decode(p): return f'{M(struct.Struct(">I"))}'
""",
    """
@dataclass
class M:
    a: object
def decode(p):
    m = M({x for x in p.decode().split()})
    return repr(m)
""",
    """
@dataclass(repr=False)
class M:
    a: object
def decode(p): return repr(M(1))
""",
    """
class B:
    pass
@dataclass
class M(B):
    a: object
    def __repr__(self): return object.__repr__(self)
def decode(p): return str(M(1))
""",
    """
class M:
    def __init__(self, p): self.p = p
    def text(self): return f'{self}'
def decode(p): return M(p).text()
""",
    """
class M:
    def __init__(self): self.s = set()
    def first(self):
        for x in self.s: return x
def decode(p):
    m = M()
    m.s.update(p.decode().split())
    return m.first()
""",
    """
class M:
    def __init__(self, s): self.s = s
def decode(p):
    a = []
    m = M(a)
    m.s.append({*p.decode().split()})
    return [*a[0]]
""",
    """
def decode(p):
    d = {}
    d['x'] = d2 = {'y': {*p.decode().split()}}
    return [z for y in d.values() for z in y['y']]
""",
    """
def decode(p):
    a, b = [], 1
    (a, b) = ({*p.decode().split()}, 2)
    return ''.join(a)
""",
    """
def f(x, y): return [*x]
def decode(p): return f({*p.decode().split()}, 1)
""",
    """
def decode(p):
    s = {*p.decode().split()}
    return ' '.join(s | {'a'})
""",
    "def decode(p): return (lambda: 0).__code__",
    "def decode(p): return [] is []",
    "def decode(p): return next(iter({*p.decode().split()}))",
    "def decode(p): return dict.fromkeys({*p.decode().split()})",
    "def decode(p): return list(dict.fromkeys(set(p.decode().split())))",
    """
def decode(p):
    for i, x in enumerate(set(p.decode().split())): return x
""",
    "def decode(p): return list(map(str.upper, set(p.decode().split())))",
    "def decode(p): return [*zip(set(p.decode().split()), p)]",
    "def decode(p): return str.join(',', set(p.decode().split()))",
    """
j = str.join
def decode(p): return j(',', set(p.decode().split()))
""",
    "def decode(p): return str([{*p.decode().split()}])",
    "def decode(p): return '%r' % ({*p.decode().split()},)",
    "def decode(p): return bytes({x for x in p})",
    "def decode(p): return math.fsum({float(x) for x in p.split()})",
    """
def decode(p):
    x = p if p else {*p.decode().split()}
    return [*x]
""",
    """
def decode(p):
    if (s := {*p.decode().split()}): return [*s]
""",
    """
def decode(p):
    while True:
        try:
            for x in s: return x
        except NameError: s = {*p.decode().split()}
""",
]

IMPURE_KEYS = [
    """
class M(NamedTuple):
    f: object
class Other:
    def f(self):
        return 0
def decode(payload):
    items = []
    Other()
    return M(items.pop)
def key(message):
    return message.f()
""",
    "def key(message): return message.pop('user')",
    "def key(message): return message.setdefault('user', 0)",
    "def key(message): message['seen'] = True; return message['user']",
    "def key(message):\n    message['n'] += 1\n    return message['user']",
    "def key(message):\n    del message['user']\n    return 0",
    "def key(message):\n    message.user = 'x'\n    return message.user",
    "def key(message):\n    items = message['items']\n    items += [1]\n    return len(items)",
    "def key(message):\n    message['items'].sort()\n    return message['items'][0]",
    "def key(message):\n    list.sort(message['items'])\n    return message['items'][0]",
    "def key(message):\n    first, message['rest'] = message['a'], 0\n    return first",
    "def key(message):\n    for message['x'] in (1, 2): pass\n    return message['x']",
    "def strip(items): items.clear()\ndef key(message):\n    strip(message['items'])\n    return 0",
    "def key(message): return max(message['items'], key=message.pop)",
    "def key(message): return [*map(message.pop, ['user'])][0]",
    "def key(message): return re.sub('x', message.pop, 'xx')",
    "pop = dict.pop\ndef key(message): return pop(message, 'user')",
    "def key(message): return operator.setitem(message, 'a', 1)",
    "def key(message): return dict.__setitem__(message, 'a', 1)",
    "def key(message): return setattr(message, 'a', 1)",
    "def key(message): return (lambda m: m.pop('user'))(message)",
    "def key(message): return [message.pop() for _ in range(2)][0]",
    "def key(message): return next(message)",
    "KEPT = []\ndef key(message):\n    KEPT.append(message)\n    return 0",
    "class K:\n    def __init__(self, m): m['a'] = 1\ndef key(message): return K(message)",
    "key = operator.methodcaller('pop', 'user')",
    "key = dict.popitem",
    """
class M:
    def __init__(self, p):
        self.p = p
        self.reads = 0
    @property
    def user(self):
        self.reads += 1
        return self.p
def decode(payload):
    return M(payload)
def key(message):
    return message.user
""",
    """
class M:
    def __init__(self, p):
        self.p = p
        self.reads = 0
    def user(self):
        self.reads += 1
        return self.p
def decode(payload):
    return M(payload)
def key(message):
    return message.user()
""",
    """
class M:
    def __init__(self, p):
        self.p = p
        self.reads = 0
    def __str__(self):
        self.reads += 1
        return 'M'
def decode(payload):
    return M(payload)
def key(message):
    return f'{message}'
""",
    """
class M:
    def __init__(self, p):
        self.p = [p]
    def __len__(self):
        self.p.append(1)
        return 1
def decode(payload):
    return M(payload)
def key(message):
    return 1 if message else 0
""",
    """
class M:
    def __init__(self, p):
        self.p = [p]
    def __iter__(self):
        return iter(self.p)
    def __next__(self):
        return self.p.pop()
def decode(payload):
    return M(payload)
def key(message):
    return [x for x in message][0]
""",
]
