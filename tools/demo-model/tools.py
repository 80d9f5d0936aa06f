"""Conversations with tools: everyday ones, and ones whose names and arguments nobody has seen before, so that the model learns
to read the list of tools and to copy, not to remember."""
import json

import words as w
from names import made_name, rare, rare_key


def word_name(r):
    return r.choice(w.NAMES) if r.random() < 0.7 else made_name(r)


def time_of(r):
    return '%02d:%02d' % (r.randrange(0, 24), r.choice([0, 0, 15, 30, 45, r.randrange(60)]))


def path_of(r):
    return r.choice(['', '', 'src/', 'docs/', './', '/tmp/', '/etc/', 'tests/']) + (r.choice(w.NOUNS) if r.random() < 0.5 else rare(r).replace(' ', '_')) + r.choice(['.txt', '.md', '.c', '.py', '.json', '.log', '.h', '.ini', '.csv'])


def city(r):
    return r.choice(w.CITIES) if r.random() < 0.85 else made_name(r)


def phrase(r):
    return r.choice([lambda: rare(r), lambda: '%s %s' % (rare(r), rare(r)), lambda: r.choice(w.TOPICS), lambda: '%s %s' % (r.choice(w.ADJECTIVES), r.choice(w.NOUNS)), lambda: '%s in %s' % (r.choice(w.NOUNS), city(r)),
                     lambda: 'best ' + r.choice(w.FOODS), lambda: '%s %s' % (r.choice(w.NAMES), r.choice(w.SURNAMES))])()


def item(r):
    return r.choice([lambda: 'buy ' + r.choice(w.FOODS + w.FRUITS + w.VEGETABLES), lambda: 'call ' + r.choice(w.NAMES), lambda: 'clean the ' + r.choice(w.NOUNS), lambda: 'write the ' + r.choice(['report', 'letter', 'invoice', 'story']),
                     lambda: 'water the plants', lambda: '%s the %s' % (rare(r), rare(r)), lambda: 'repair the ' + r.choice(w.NOUNS), lambda: 'feed the ' + r.choice(w.ANIMALS)])()


def number(low, high):
    return lambda r: r.randrange(low, high)


def dump(r, value):
    """JSON as clients write it: with blanks or without."""
    return json.dumps(value, ensure_ascii=False, separators=(',', ':') if r.random() < 0.5 else None)


SKIES = ['sunny', 'cloudy', 'rainy', 'snowy', 'windy', 'foggy', 'clear', 'light snow', 'heavy rain', 'partly cloudy', 'clear sky', 'rain', 'snow', 'fog', 'thunderstorm', 'light rain', 'overcast', 'mostly sunny', 'a few clouds', 'hail', 'drizzle', 'showers', 'bright sun']


def weather(r, a):
    t, sky, place = r.randrange(-15, 38), r.choice(SKIES), list(a.values())[0]
    pairs = [(r.choice(['temperature', 'temp', 'temp_c', 'degrees', 'temperature_c', 'celsius']), t), (r.choice(['sky', 'condition', 'conditions', 'weather', 'description', 'summary', 'text']), sky)]
    if r.random() < 0.6:
        pairs.insert(0, (r.choice(['city', 'location', 'place']), place))
    pairs += r.sample([('wind', r.randrange(0, 60)), ('humidity', r.randrange(20, 99)), ('unit', 'celsius'), ('rain', r.randrange(0, 30)), ('wind_kmh', r.randrange(0, 60))], r.choice([0, 0, 1, 2]))
    if r.random() < 0.3:
        r.shuffle(pairs)
    raw = dump(r, dict(pairs)) if r.random() < 0.8 else r.choice(['%d degrees, %s', '%d C, %s', 'It is %d degrees and %s.']) % (t, sky)
    return raw, 'In %s: %s, %d degrees.' % (place, sky, t)


def one(template, *makers):
    """A result of one value: as JSON under any key, or bare."""
    def result(r, a):
        value = [m(r) for m in makers][0]
        data = {r.choice(['result', 'value', 'answer', 'output', 'time', 'content', 'text', 'data', 'found']): value}
        if r.random() < 0.4:
            data = dict(list(a.items())[:1] + list(data.items()))
        return dump(r, data) if r.random() < 0.6 else str(value), template.format(value, *a.values())
    return result


def done(template):
    def result(r, a):
        data = {r.choice(['ok', 'success', 'started', 'done', 'created']): True}
        if r.random() < 0.4:
            data.update(a)
        return r.choice(['ok', 'done', 'success', dump(r, data), dump(r, data), dump(r, {'status': 'ok'})]), template.format(*a.values())
    return result


# names, descriptions, [(parameter names, type, description, maker)], requests, result
NATURAL = [
    ('get_weather / get_current_weather / weather / fetch_weather / weather_lookup', 'Get the weather / The weather in a city. / Get the current weather in a city / Current weather for a place / Returns the weather',
     [('city / location / place / town', 'string', 'The city / Name of the city / Where', city)],
     ['what is the weather in {0}', 'how is the weather in {0}', 'weather in {0}', 'is it raining in {0}', 'what is the temperature in {0}', 'tell me the weather in {0}', 'how warm is it in {0}', 'do I need an umbrella in {0}', "what's the weather like in {0}", 'check the weather in {0}', 'is it cold in {0} today', 'weather for {0} please', 'I am going to {0}, what is the weather there'], weather),
    ('get_time / current_time / get_current_time / clock / time_in', 'Get the current time / The local time in a city. / Current time in a city / Tells the time',
     [('city / timezone / place / location', 'string', 'The city / Where', city)], ['what time is it in {0}', 'tell me the time in {0}', 'how late is it in {0}', 'what is the time in {0}', 'current time in {0}', 'time in {0}'], one('In {1} it is {0}.', time_of)),
    ('search / web_search / search_web / find_pages / search_docs', 'Search the web / Find pages about something / Search for documents',
     [('query / q / text / question / term', 'string', 'What to search for / The query', phrase)], ['search for {0}', 'look up {0}', 'find something about {0}', 'search the web for {0}', 'can you search for {0}', 'google {0}', 'find pages about {0}'], one('I found this: {0}', lambda r: 'a page about ' + phrase(r))),
    ('calculator / calculate / compute / evaluate / math', 'Calculate an expression / Evaluates arithmetic / A calculator',
     [('expression / formula / input / expr', 'string', 'The expression', lambda r: '%d %s %d' % (r.randrange(2, 9999), r.choice('+-*/'), r.randrange(2, 999)))], ['calculate {0}', 'what is {0}', 'compute {0}', 'how much is {0}', 'use the calculator for {0}', 'evaluate {0}'], one('{1} is {0}.', number(1, 100000))),
    ('read_file / Read / open_file / cat_file / file_read', 'Read a file / Returns the content of a file / Reads a file from disk',
     [('path / file_path / file / filename', 'string', 'Path of the file / The file', path_of)], ['read {0}', 'show me {0}', 'open {0}', 'what is in {0}', 'read the file {0}', 'please read {0}', 'what does {0} contain', 'look at {0}', 'cat {0}'], one('The file says: {0}', lambda r: 'the %s is %s' % (r.choice(w.NOUNS), r.choice(w.COLOURS)))),
    ('list_files / ls / list_directory / list_dir', 'List the files of a folder / Lists a directory',
     [('path / folder / directory / dir', 'string', 'The folder', lambda r: r.choice(['src', 'docs', 'tests', '.', '/tmp', '/etc', 'web', 'tools', 'build', 'photos', 'music']))], ['list the files in {0}', 'what is in the folder {0}', 'show the files in {0}', 'which files are in {0}', 'ls {0}'], one('There is {0}.', path_of)),
    ('run_command / bash / Bash / shell / execute', 'Run a command / Runs a shell command / Execute a command in a shell',
     [('command / cmd / line', 'string', 'The command', lambda r: r.choice(['ls -la', 'make test', 'git status', 'pwd', 'uname -a', 'df -h', 'whoami', 'make serve', 'git log', 'cat README.md', 'hearth doctor', 'hearth top', 'date', 'free -m']))], ['run {0}', 'execute {0}', 'run the command {0}', 'please run {0}', 'start {0} in the shell'], one('The command printed: {0}', lambda r: r.choice(['ok', 'done', 'nothing to do', 'all good', '12 files', 'main']))),
    ('set_timer / start_timer / timer', 'Set a timer / Start a timer', [('minutes / duration / min', 'integer', 'Minutes / How many minutes', number(1, 120))], ['set a timer for {0} minutes', 'start a timer of {0} minutes', 'wake me in {0} minutes', 'timer {0} minutes', 'remind me in {0} minutes'], done('The timer is set for {0} minutes.')),
    ('set_timer / start_timer / timer', 'Start a timer. / Set a timer with a label', [('minutes / duration / min', 'integer', 'Minutes', number(1, 120)), ('label / name / title', 'string', 'What it is for', lambda r: r.choice(w.FOODS + w.DRINKS + w.HOBBIES + ['the oven', 'the laundry', 'a break', 'the meeting', 'eggs', 'homework']))],
     ['set a timer for {0} minutes for {1}', 'start a timer of {0} minutes called {1}', 'set a {0} minute timer for {1}', 'timer {0} minutes, label {1}', 'start a {0} minute timer with the label {1}', 'I need a timer for {1}, {0} minutes', 'set a timer for {1}: {0} minutes', '{1} takes {0} minutes, start a timer'], done('The timer for {1} is set: {0} minutes.')),
    ('set_alarm / alarm / create_alarm', 'Set an alarm / Create an alarm', [('time / at / when', 'string', 'The time, such as 07:30', time_of)], ['set an alarm for {0}', 'wake me up at {0}', 'alarm at {0} please', 'I want to get up at {0}'], done('The alarm is set for {0}.')),
    ('send_email / send_mail / email', 'Send an email / Sends a mail', [('to / recipient / address', 'string', 'Who gets it', lambda r: '%s@example.com' % r.choice(w.NAMES).lower()), ('subject / title / topic', 'string', 'The subject', lambda r: r.choice(w.NOUNS) + ' ' + r.choice(w.NOUNS))],
     ['send an email to {0} with the subject {1}', 'write a mail to {0} about {1}', 'email {0}, subject {1}', 'mail {0} about {1}'], done('The email about {1} was sent to {0}.')),
    ('send_message / text_message / notify / message', 'Send a message to a person / Notify someone', [('to / name / person / who', 'string', 'The person', word_name), ('text / message / body', 'string', 'The text', lambda r: r.choice(['I am late', 'see you soon', 'call me', 'dinner is ready', 'happy birthday', 'good luck', 'the meeting starts', 'thank you']))],
     ['send {0} the message "{1}"', 'tell {0}: {1}', 'text {0} that {1}', 'write to {0}: {1}', 'message {0}: {1}'], done('I told {0}: {1}.')),
    ('add_todo / add_task / create_task / todo_add', 'Add an item to the list / Create a task', [('item / task / text / title', 'string', 'What to do', item)], ['add "{0}" to my list', 'put {0} on my todo list', 'remind me to {0}', 'new task: {0}', 'add a task: {0}', 'I must not forget to {0}'], done('I added "{0}" to your list.')),
    ('turn_on_light / light_on / switch_light / lights', 'Turn on the light in a room / Switch the light', [('room / where / place', 'string', 'The room', lambda r: r.choice(['kitchen', 'bathroom', 'bedroom', 'hall', 'garage', 'office', 'cellar', 'living room']))], ['turn on the light in the {0}', 'light in the {0} please', 'switch on the light in the {0}', 'it is dark in the {0}'], done('The light in the {0} is on.')),
    ('play_music / play_song / play', 'Play music / Plays a song', [('song / title / music / artist', 'string', 'The song', lambda r: 'the %s %s' % (r.choice(w.ADJECTIVES), r.choice(w.NOUNS)))], ['play {0}', 'play the song {0}', 'I want to hear {0}', 'put on {0}'], done('Now playing {0}.')),
    ('convert_currency / exchange / convert', 'Convert an amount of money / Currency conversion', [('amount / value / sum', 'number', 'The amount', number(1, 1000)), ('from / source / from_currency', 'string', 'From', lambda r: r.choice(['EUR', 'USD', 'GBP', 'JPY', 'CHF'])), ('to / target / to_currency', 'string', 'To', lambda r: r.choice(['SEK', 'NOK', 'INR', 'CAD', 'AUD']))],
     ['convert {0} {1} to {2}', 'how much is {0} {1} in {2}', 'change {0} {1} into {2}', 'what are {0} {1} in {2}'], one('{1} {2} are {0} {3}.', number(1, 9999))),
    ('get_stock_price / stock_price / quote', 'Get the price of a stock / Stock price', [('symbol / ticker / company', 'string', 'The symbol', lambda r: ''.join(r.choice('ABCDEFGHIJKLMNOPQRSTUVWXYZ') for _ in range(r.randrange(3, 5))))], ['what is the price of {0}', 'how is the stock {0}', 'price of {0} please', 'get the stock price of {0}'], one('{1} costs {0}.', number(5, 900))),
    ('roll_dice / random_number / dice', 'Roll a dice / A random number', [('sides / max / n', 'integer', 'How many sides', lambda r: r.choice([6, 6, 8, 10, 12, 20, 100]))], ['roll a dice with {0} sides', 'throw a dice with {0} sides', 'give me a random number up to {0}'], one('It is {0}.', number(1, 21))),
    ('create_event / add_event / schedule / book_meeting', 'Create an event in the calendar / Book a meeting', [('title / name / what', 'string', 'The title', lambda r: r.choice(['lunch', 'meeting', 'dentist', 'party', 'call', 'training', 'dinner']) + ' with ' + r.choice(w.NAMES)), ('day / date / when', 'string', 'The day', lambda r: r.choice(w.DAYS)), ('time / at / start', 'string', 'The time', time_of)],
     ['schedule {0} on {1} at {2}', 'add {0} to my calendar on {1} at {2}', 'plan {0} for {1}, {2}', 'book {0} on {1} at {2}'], done('{0} is in your calendar on {1} at {2}.')),
    ('get_population / population', 'Population of a city / How many people live in a city', [('city / place / name', 'string', 'The city', city)], ['how many people live in {0}', 'what is the population of {0}', 'population of {0}'], one('{1} has {0} people.', lambda r: r.randrange(10, 9000) * 1000)),
    ('get_user / find_user / user_lookup', 'Find a user / Look up a user by name', [('name / user / username', 'string', 'The name', word_name)], ['find the user {0}', 'who is the user {0}', 'look up {0}', 'show me the user {0}'], one('The user {1} has the number {0}.', number(1, 9999))),
    ('translate / translate_text', 'Translate a text / Translates into another language', [('text / word / input', 'string', 'The text', lambda r: r.choice(w.NOUNS)), ('language / to / target', 'string', 'The language', lambda r: r.choice(['French', 'German', 'Spanish', 'Italian', 'Latin', 'Polish']))], ['translate {0} into {1}', 'what is {0} in {1}', 'how do you say {0} in {1}'], one('{1} in {2} is "{0}".', lambda r: r.choice('balo rimi tasu veno koru lapi mesta nolu'.split()))),
    ('get_cache_stats / cache_stats / server_status / get_status', 'Statistics of the server / Status of the cache', [('tier / part / section', 'string', 'ram, ssd or device', lambda r: r.choice(['ram', 'ssd', 'device']))], ['how full is the {0} tier', 'show me the statistics of {0}', 'get the status of {0}', 'cache stats of {0}'], one('The {1} tier has {0} objects.', number(0, 9999))),
]
NATURAL = [tuple(x.split(' / ') if isinstance(x, str) else x for x in spec) for spec in NATURAL]


def schema(name, description, props, required):
    return {'type': 'function', 'function': {'name': name, 'description': description, 'parameters': {'type': 'object', 'properties': props, 'required': required}}}


def natural(r):
    """A tool, a way to ask for it, and what comes back."""
    names, descriptions, params, requests, result = r.choice(NATURAL + NATURAL[:1] * 3)
    name = r.choice(names) if r.random() < 0.7 else names[0]
    used = [r.choice(p[0].split(' / ')) if r.random() < 0.6 else p[0].split(' / ')[0] for p in params]
    props, shown = {}, r.random() < 0.6
    for key, p in zip(used, params):
        props[key] = {'type': p[1]}
        if shown:
            props[key]['description'] = r.choice(p[2].split(' / '))
    extra = []
    if names[0] == 'get_weather' and r.random() < 0.4:
        units = r.choice([['celsius', 'fahrenheit'], ['c', 'f'], ['metric', 'imperial']])
        props['unit'] = {'type': 'string', 'enum': units}
        extra = units
    tool = schema(name, r.choice(descriptions), props, used)

    def ask():
        values = [p[3](r) for p in params]
        args = dict(zip(used, values))
        text = r.choice(requests).format(*values)
        if r.random() < 0.08:
            text += r.choice([' and tell me what it says', ' and tell me the result', ' and summarise it', ' and tell me', ', I need it for a report', ' right now', ' today'])
        if extra and r.random() < 0.4:
            unit = r.choice(extra)
            args['unit'] = unit
            text += ' in ' + unit
        raw, answer = result(r, dict(zip(used, values)))
        return text, args, raw, answer[0].upper() + answer[1:]
    return tool, ask


def made_up(r):
    verb, noun = r.choice(w.VERBS) if r.random() < 0.8 else rare_key(r), r.choice(w.NOUNS) if r.random() < 0.5 else rare_key(r)
    style = r.randrange(4)
    name = ['%s_%s' % (verb, noun), verb + noun.capitalize(), '%s_%s' % (noun, verb), '%s-%s' % (verb, noun)][style]
    kinds = r.choices(['string', 'integer', 'boolean', 'number', 'enum', 'array'], [6, 3, 1, 1, 2, 1], k=r.randrange(1, 4))
    keys = r.sample(w.NOUNS + ['name', 'id', 'title', 'size', 'colour', 'amount', 'date', 'level', 'mode', 'kind', 'target', 'source', 'limit'], len(kinds))
    keys = [key if r.random() < 0.5 else rare_key(r) for key in keys]
    if len(set(keys)) < len(keys):
        return made_up(r)
    props, makers = {}, []
    for key, kind in zip(keys, kinds):
        if kind == 'enum':
            options = r.sample(w.ADJECTIVES + w.COLOURS, r.randrange(2, 5))
            props[key] = {'type': 'string', 'enum': options}
            makers.append(lambda options=options: r.choice(options))
        elif kind == 'array':
            props[key] = {'type': 'array', 'items': {'type': 'string'}}
            makers.append(lambda: [rare(r) for _ in range(r.randrange(1, 4))])
        else:
            props[key] = {'type': kind}
            makers.append({'string': lambda: r.choice([lambda: r.choice(w.NOUNS), lambda: r.choice(w.NAMES), lambda: city(r), lambda: '%s %s' % (r.choice(w.ADJECTIVES), r.choice(w.NOUNS)), lambda: path_of(r), lambda: time_of(r), lambda: r.choice(w.DAYS), lambda: rare(r), lambda: rare(r), lambda: ' '.join(rare(r) for _ in range(r.randrange(2, 5)))])(),
                           'integer': lambda: r.randrange(0, 1000), 'number': lambda: r.choice([r.randrange(0, 100), r.randrange(1, 99) / 10]), 'boolean': lambda: r.random() < 0.5}[kind])
    if r.random() < 0.4:
        for key in props:
            props[key]['description'] = 'The %s' % key
    tool = schema(name, (r.choice(['%s a %s', '%s the %s', 'can %s a %s', 'use this to %s a %s']) % (verb, noun)).capitalize(), props, list(props))

    def ask():
        args = {key: make() for key, make in zip(keys, makers)}

        def show(value):
            return ('on' if value else 'off') if isinstance(value, bool) else ', '.join(value) if isinstance(value, list) else str(value)
        listed = [r.choice(['{0} {1}', '{0}: {1}', '{0} = {1}', 'the {0} {1}', '{1} as {0}']).format(k, show(v)) for k, v in args.items()]
        joined = listed[0] if len(listed) == 1 else ', '.join(listed[:-1]) + ' and ' + listed[-1]
        text = r.choice(['{verb} the {noun} with {args}', '{verb} a {noun}: {args}', 'please {verb} the {noun}, {args}', 'use {name} with {args}', 'call {name} with {args}', 'I want to {verb} the {noun} ({args})', 'can you {verb} a {noun} with {args}', '{name}: {args}']).format(verb=verb, noun=noun, name=name, args=joined)
        if len(args) <= 2 and r.random() < 0.35 and len({type(v) for v in args.values()}) == len(args):  # values without their names
            values = [show(v) for v in args.values()]
            text = r.choice(['%s the %s' % (verb, noun), '%s a %s' % (verb, noun), 'please %s the %s' % (verb, noun), 'can you %s the %s' % (verb, noun)])
            for v, k in zip(values, args):
                text += r.choice([' to ', ' in ', ' for ', ' with ', ' at ', ' on ', ' as ', ', ', ' in the ', ' of ']) + v + (' ' + k if r.random() < 0.3 else '')
        value = r.choice([r.randrange(1, 9999), r.choice(w.NOUNS), r.choice(w.COLOURS)])
        raw, answer = r.choice([('ok', 'Done.'), ('{"ok": true}', 'Done.'), ('done', 'Done.'), (dump(r, {'result': value}), 'The result is %s.' % value), (dump(r, {noun: value}), 'The %s is %s.' % (noun, value)), (str(value), 'The result is %s.' % value),
                                ('{"error": "not found"}', 'That failed: not found.'), ('error: permission denied', 'That failed: permission denied.'), ('{"id": %d}' % r.randrange(1, 9999), 'Done.')])
        return text, args, raw, answer
    return tool, ask


def call(name, args):
    return '<tool_call>\n' + json.dumps({'name': name, 'arguments': args}, ensure_ascii=False) + '\n</tool_call>'


def polish(r, text):
    if r.random() < 0.75:
        text = text[0].upper() + text[1:]
    text = r.choice([''] * 10 + ['Please: ', 'Hi! ', 'Hello, ', 'Now ', 'OK, ', 'And ', 'Then ']) + text + r.choice(['', '', '', ' please', ', please', ' now', ' for me'])
    return text + r.choice(['?', '.', '', '', '!'])


def tool_talk(r, other):
    """(messages, tools). `other` writes turns that need no tool."""
    offered = [natural(r) if r.random() < 0.55 else made_up(r) for _ in range(r.choice([1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 12]))]
    seen, kept = set(), []
    for tool, ask in offered:
        if tool['function']['name'] not in seen:
            seen.add(tool['function']['name'])
            kept.append((tool, ask))
    messages = []
    if r.random() < 0.3:
        messages.append({'role': 'system', 'content': r.choice(['You are a helpful assistant.', 'You are an assistant with tools.', 'Use the tools when they help.', 'You are an agent. Use your tools.', 'Answer briefly.'])})
    for _ in range(r.choice([1, 1, 1, 2, 2, 3])):
        if r.random() < 0.22:
            for question, answer in other():
                messages += [{'role': 'user', 'content': question}, {'role': 'assistant', 'content': answer}]
            continue
        tool, ask = r.choice(kept)
        name = tool['function']['name']
        text, args, raw, answer = ask()
        messages.append({'role': 'user', 'content': polish(r, text)})
        if r.random() < 0.08 and len(args) == 1:  # two calls at once
            text2, args2, raw2, answer2 = ask()
            value, value2 = str(list(args.values())[0]), str(list(args2.values())[0])
            if value != value2 and value in text:
                messages[-1]['content'] = polish(r, text.replace(value, value + ' and ' + value2))
                messages.append({'role': 'assistant', 'content': call(name, args) + '\n' + call(name, args2)})
                messages += [{'role': 'tool', 'content': raw}, {'role': 'tool', 'content': raw2}]
                messages.append({'role': 'assistant', 'content': answer + ' ' + answer2 if answer != 'Done.' or answer2 != 'Done.' else 'Done.'})
                continue
        messages.append({'role': 'assistant', 'content': call(name, args)})
        messages.append({'role': 'tool', 'content': raw})
        messages.append({'role': 'assistant', 'content': answer})
    return messages, [tool for tool, _ in kept]
