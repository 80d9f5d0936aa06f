"""Names that nobody has: the model must copy them, byte by byte if need be."""
STARTS = 'b c d f g h j k l m n p r s t v w z br dr fl gr kr pl st tr th sh ch Å é ö ñ ç ł š ž'.split()
MIDDLES = 'a e i o u ai ea io é ö ü ä á í ó ø å è ô ê'.split()
SCRIPTS = ['абвгдежзиклмнопрстуфхя', 'αβγδεζηθικλμνοπρστυφω', '小明王李张伟芳娜秀英敏静丽强磊', 'あいうえおかきくけこさしすせそ', '😀🙂🚀🔥🌍🎉👍']


def made_name(r):
    kind = r.random()
    if kind < 0.06:
        script = r.choice(SCRIPTS)
        return ''.join(r.choice(script) for _ in range(r.randrange(1, 6))).capitalize()
    plain = kind < 0.75
    parts = [(r.choice(STARTS[:23]) if plain else r.choice(STARTS)) + (r.choice(MIDDLES[:8]) if plain else r.choice(MIDDLES)) for _ in range(r.randrange(1, 4))]
    return (''.join(parts) + r.choice(['', 'n', 'r', 's', 'l', 'x', 'k', 'm', 'th'])).capitalize()


RARE = []  # words of the documentation, read by talk.load_docs


def rare(r):
    """A word that the model has seldom copied: of the documentation, or made up; alone, or two of them."""
    one = lambda: r.choice(RARE) if RARE and r.random() < 0.7 else made_name(r).lower()
    kind = r.random()
    if kind < 0.7:
        return one()
    return r.choice(['%s_%s', '%s %s', '%s-%s']) % (one(), one()) if kind < 0.9 else one() + one().capitalize()


def rare_key(r):
    return rare(r).replace(' ', '_')
