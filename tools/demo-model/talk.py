"""Writes conversations for the demo model: a grammar with many paraphrases, names and slots.

Every text comes from facts.txt, words.py, this file, tools.py and the documentation of the tree. A conversation is a list of
messages; render() lays it out as the chat template of lab/model_vocab.c does and says which parts the model learns.
"""
import json
import os
import random
import re

import words as w
import names
from names import made_name, rare
from tools import tool_talk

HERE = os.path.dirname(os.path.abspath(__file__))


def dumps(value):
    return json.dumps(value, ensure_ascii=False)


def choose(r, text):
    """Resolves {x|y} from the inside out."""
    while True:
        found = re.search(r'\{([^{}]*\|[^{}]*)\}', text)
        if not found:
            return text
        text = text[:found.start()] + r.choice(found.group(1).split('|')) + text[found.end():]


def read_facts():
    facts, fact = [], {}
    for line in open(os.path.join(HERE, 'facts.txt'), encoding='utf-8'):
        line = line.strip()
        if line.startswith('#'):
            continue
        if not line:
            if fact:
                facts.append(fact)
            fact = {}
            continue
        key, text = line.split(':', 1)
        fact.setdefault(key, []).extend([text.strip()] if key in 'am' else [p.strip() for p in text.split(' / ')])
    return facts + ([fact] if fact else [])


FACTS = read_facts()
DOCS = []  # (title, paragraphs) of the documentation, read by load_docs
AGENT_PAGES = 40  # paragraphs of an agent's instructions; more in long rows


def load_docs(folder):
    for path in sorted(os.listdir(folder)):
        if path.endswith('.md'):
            text = open(os.path.join(folder, path), encoding='utf-8').read()
            parts = [p.strip() for p in re.split(r'\n\s*\n', text) if len(p) > 40]
            if parts:
                DOCS.append((path, parts))
    found = set(re.findall(r'(?<![\w`/.-])[a-z]{4,14}(?![\w`/-])', ' '.join(p for _, parts in DOCS for p in parts)))
    names.RARE[:] = sorted(found)


K_FRAMES = ['what is K', "what's K", 'what are K', 'explain K', 'tell me about K', 'can you explain K', 'K', 'what do you know about K',
            'describe K', 'I want to know about K', 'define K', 'what exactly is K', 'tell me something about K', 'what about K',
            'what do you mean by K', 'please explain K', 'could you explain K to me', 'explain K to me', 'explain K in simple words',
            'how does K work', 'what is meant by K', 'give me a short explanation of K', 'what does K mean', 'and K', 'K please']
H_FRAMES = ['how do I H', 'how can I H', 'how to H', 'how do you H', 'I want to H', 'what is the command to H', 'is there a way to H',
            'can I H', 'how would I H', 'please tell me how to H', 'help me H', 'what do I have to do to H', 'is it possible to H',
            'show me how to H', 'I need to H', 'how could I H', "what's the best way to H", 'which command do I need to H',
            'I would like to H', 'tell me how to H', 'what must I do to H', 'how does one H', 'H', 'can you help me to H',
            'where can I H', 'how should I H', 'what is the way to H', 'can hearth H', 'I am trying to H']
BEFORE = [''] * 12 + ['hi, ', 'hello, ', 'hey, ', 'quick question: ', 'so ', 'ok, ', 'and ', 'please tell me: ', 'I wonder, ',
                      'one more thing: ', 'next question: ', 'sorry, ', 'thanks. ', 'good. ', 'tell me, ', 'hmm, ', 'now, ', 'well, ',
                      'another question: ', 'hello hearth, ']
AFTER = [''] * 12 + [' please', ', please', ' here', ' again', ' exactly', ', do you know', ' for me', ' now', ' in short']
AFTER_FACT = AFTER + [' in hearth', ' with hearth', ' on this server', ', in one sentence', ' in hearth']
SAME = {line.split(':')[0]: line.split(':')[1].split(',') for line in """machine:computer,box,laptop,host,system,PC
folder:directory,place
delete:remove,erase,wipe
show:display,print
large:big,huge
larger:bigger,greater
start:launch,run,fire up,bring up,boot
server:program,daemon,service,process
change:modify,alter,adjust,set
disable:switch off,turn off,deactivate
fast:quick,speedy
faster:quicker
model:LLM,network,AI model
models:LLMs
prompt:request,query,input
prompts:requests,inputs
answer:reply,response,output
answers:replies,responses
use:work with,try,take
get:obtain,fetch,have
keep:retain,hold,store
kept:stored,held,saved
stored:kept,saved
see:view,look at,check,find out
connect:hook up,link,attach,point
limit:restrict,cap,bound
increase:raise,enlarge,grow,bump up
several:multiple,many,more than one
users:people,colleagues,clients
memory:RAM
disk:drive,SSD,hard disk
support:have,offer,know,handle
supported:possible,available
work:function,operate
works:functions,runs
which:what
what:which
clear:empty,wipe,purge
option:flag,switch,setting,parameter
options:flags,settings
command:line,call
happens:occurs,goes on
need:require,want
want:need,wish
reuse:use again
reused:used again,taken from the cache
computed:calculated,processed
find:discover,locate
make:get,let
explain:describe,tell me about
difference:distinction
cached:in the cache,stored
restart:reboot,stop and start
download:fetch,get,load down
talk:speak,chat
hearth:it,this,the server,Hearth,this server,this program""".split('\n')}
SAME_WORD = re.compile(r'(?<![-/\w])(%s)(?![-/\w])' % '|'.join(SAME))
FILL = ['actually', 'really', 'just', 'maybe', 'basically', 'somehow', 'please', 'also', 'exactly', 'in general', 'then', 'usually', 'simply', 'quickly', 'ever', 'only', 'now', 'always']
STOP = set("""a an the is are do does did i you it of to in on at for and or with my me your can could would should how what which who when where why
be been was were will this that these those there have has had not no if from by as so about some any one tell please want need""".split())
FIRST = ['I am new here. ', 'I just installed it. ', 'I use Debian. ', 'I use Ubuntu 24.04. ', 'I have 16 GB of RAM. ', 'My laptop has no GPU. ', 'My boss wants to know: ', 'For a project I need to know: ', 'I read the docs but did not find it: ', 'Sorry for the stupid question. ',
         'A friend asks: ', 'I am a beginner. ', 'I have a question. ', 'Let me ask you something. ', 'OK. ', 'Thank you! ', 'Great. ', 'I see. ', 'Got it. ', 'That helps. ', 'One last thing. ', 'Hi! ', 'Good morning! ', 'Hello. ', 'I am confused. ', 'We are a team of five. ', 'I tried it yesterday. ']


def typo(r, text):
    at = r.randrange(1, max(2, len(text) - 1))
    kind = r.random()
    if kind < 0.4:
        return text[:at] + text[at + 1:]
    if kind < 0.7:
        return text[:at] + text[at:at + 2][::-1] + text[at + 2:]
    return text[:at] + text[at - 1:at] + text[at:]


def reword(r, text):
    """Other words, words left out or put in: the model must not depend on one wording."""
    how = r.random()
    if how < 0.35:
        text = SAME_WORD.sub(lambda m: r.choice(SAME[m.group(1)]) if r.random() < 0.5 else m.group(1), text)
    if r.random() < 0.12:
        parts = text.split(' ')
        parts.insert(r.randrange(len(parts) + 1), r.choice(FILL))
        text = ' '.join(parts)
    if r.random() < 0.12:
        parts = [p for p in text.split(' ') if p.lower() not in STOP or r.random() < 0.6]
        text = ' '.join(parts) or text
    return text


def decorate(r, text, after=AFTER):
    """A question as people type it."""
    text = r.choice(BEFORE) + text + (r.choice(after) if not text.endswith('.') else '')
    style = r.random()
    if style < 0.7:
        text = text[0].upper() + text[1:]
    elif style < 0.8:
        text = text.lower()
    if r.random() < 0.07:
        text = typo(r, text)
    text += r.choice(['?', '?', '?', '', '', '.', ' ?', '?!', '!'] if style < 0.9 else ['', '?'])
    return r.choice(FIRST) + text if r.random() < 0.1 else text


SLOTS = {
    '$PORT': lambda r: str(r.choice([80, 443, 8080, 8000, 9000, 3000, 5000, 11434, r.randrange(1024, 65536)])),
    '$CTX': lambda r: str(r.choice([4096, 8192, 16384, 32768, 65536, 100000, 131072, 200000, r.randrange(1000, 300000)])),
    '$GB': lambda r: '%d%s' % (r.randrange(1, 128), r.choice(['GiB', 'GiB', 'GB', 'MiB'])),
    '$FILE': lambda r: r.choice(['', 'models/', '/data/', '~/models/', './']) + r.choice([r.choice(w.NOUNS), any_name(r).lower().replace(' ', '-'), rare(r).replace(' ', '-'), 'Qwen3-8B-Q4_K_M', 'model', 'coder', 'llama', 'gemma']) + r.choice(['', '-7b', '-Q8_0', '-q4_k_m', '2', '-8B', '-8b', '-13b', '-Q4_K_M']) + '.gguf',
    '$REPO': lambda r: '%s/%s%s' % (r.choice(['Qwen', any_name(r), any_name(r).lower(), 'ggml-org', 'unsloth']), r.choice(['Qwen3-8B', 'Qwen3-0.6B', 'gemma-3-4b', any_name(r) + '-%dB' % r.randrange(1, 80)]), r.choice(['-GGUF', '-GGUF', ''])) + r.choice(['', ':Q4_K_M', ':Q8_0']),
    '$N': lambda r: str(r.randrange(10, 99999)), '$D': lambda r: str(r.randrange(0, 30)),
}


def rare_words():
    """The words of each fact, by how few facts have them: a question of two or three such words is clear enough."""
    every = [set(t for k in 'khqa' for p in f.get(k, []) for t in re.findall(r"[A-Za-z_/.-]{3,}", p) if t.lower() not in STOP) for f in FACTS]
    counts = {}
    for found in every:
        for t in found:
            counts[t] = counts.get(t, 0) + 1
    return [sorted(t for t in found if counts[t] <= 8) for found in every], counts


RARE, COUNTS = rare_words()
WEIGHTS = [sum(len(f.get(k, [])) for k in 'khq') ** 0.5 for f in FACTS]
RARE_FRAMES = ['%s', '%s', '%s', 'what about %s', 'I have a question about %s', 'something about %s', 'tell me about %s', 'explain %s', 'help with %s', 'info on %s', 'question: %s', 'I need %s']


def fact_question(r, at):
    """A question for a fact and the values of its slots."""
    fact = FACTS[at]
    if r.random() < 0.07 and len(RARE[at]) > 3 and '$' not in fact['a'][0]:
        chosen = r.choices(RARE[at], [1 / COUNTS[t] for t in RARE[at]], k=r.randrange(2, 4))
        return decorate(r, r.choice(RARE_FRAMES) % ' '.join(dict.fromkeys(chosen))), {}
    pool = [k for k in 'khq' if k in fact]
    kind = r.choices(pool, [len(fact[k]) ** 0.7 for k in pool])[0]
    phrase = choose(r, r.choice(fact[kind]))
    if kind == 'k':
        phrase = re.sub(r'\bK\b', lambda _: phrase, r.choice(K_FRAMES))
    elif kind == 'h':
        phrase = re.sub(r'\bH\b', lambda _: phrase, r.choice(H_FRAMES))
    slots = {name: make(r) for name, make in SLOTS.items() if name in phrase}
    phrase = reword(r, phrase)
    for name, value in slots.items():
        phrase = phrase.replace(name, value)
    return decorate(r, phrase, AFTER_FACT if not slots else AFTER), slots


# ---- small talk ----

SMALL = [
    ('hello / hi / hey / good morning / good evening / hello there / hi there / hey there / greetings / good day / howdy / hallo / hello hearth / yo / hi, nice to meet you',
     ['Hello! I am hearth\'s demo model. Ask me about hearth, or tell me your name.', 'Hello! How can I help you?',
      'Hi! I am a small demo model. Ask me something about hearth.']),
    ('how are you / how are you doing / how do you do / how is it going / are you ok / how do you feel / what\'s up',
     ['I am fine, thank you. How can I help you?', 'Very well, thank you. What would you like to know about hearth?']),
    ('who are you / what are you / what is your name / what\'s your name / tell me about yourself / introduce yourself / who am I talking to / who is this / do you have a name / what should I call you / what are you called / say something about yourself',
     ['I am hearth\'s demo model, a small language model with about 11 million parameters. I know hearth, and I can talk a little. For real work, load a real model.']),
    ('thank you / thanks / thanks a lot / thank you very much / many thanks / great, thanks / thx / cheers / that helped, thank you / perfect, thank you / that was helpful',
     ['You are welcome!', 'You are welcome. Is there anything else?']),
    ('bye / goodbye / good night / see you / see you later / I have to go / that is all / that\'s all, bye / bye bye / ciao',
     ['Goodbye! Your conversation stays cached, so we can continue at once.', 'Goodbye!']),
    ('who made you / who created you / who built you / who developed you / where do you come from / who wrote you',
     ['I was trained by the people who make hearth, with the scripts in tools/demo-model.']),
    ('tell me a joke / do you know a joke / make me laugh / say something funny / another joke / a joke please',
     ['Why did the prompt never get cold? Because it sat by the hearth.', 'What did the cache say to the token? I have seen you before.',
      'Why was the small model so happy? It had no weights on its mind.', 'How does a server stay warm? It keeps its cache close to the hearth.']),
    ('write a poem / write me a poem / tell me a poem / can you write a poem / a poem please / write a short poem / write a haiku / make a rhyme',
     ['The fire is low, the night is long,\nthe tokens come, a quiet song.\nWhat once was read is kept in store,\nand need not be computed once more.',
      'A hearth keeps warm what once was bright,\na cache keeps prompts all through the night.\nYou ask again, and with no wait\nthe answer starts: the state is there, not late.']),
    ('ok / okay / good / great / nice / cool / fine / I see / interesting / all right / wonderful / awesome / very good / perfect / got it / understood',
     ['Good. What else would you like to know?', 'Glad to hear that. Is there anything else?']),
    ('yes / sure / yes please / of course / why not', ['Good. What would you like to know?']),
    ('no / no thanks / not now / nothing / never mind / nope', ['All right. I am here if you need me.']),
    ('you are wrong / that is wrong / that is not correct / this is wrong / wrong answer / that is not true',
     ['I am sorry. I am a small model and make mistakes. A real model would do better: hearth pull gets one.']),
    ('I love you / I like you / you are great / you are nice / good job / well done / you are funny / good answer / you are smart',
     ['Thank you! That is kind of you.']),
    ('you are stupid / you are bad / I hate you / you are useless / shut up / you are boring',
     ['I am sorry that I could not help. I am only a small demo model. hearth pull gets you a real one.']),
    ('can you help me / help / help me / I need help / I have a question / can I ask you something / may I ask something / please help',
     ['Of course. I know hearth quite well: ask me how to start it, get a model, connect a client or read the cache figures.']),
    ('are you there / are you still there / test / testing / ping / is this working / does this work / hello? are you there / this is a test / testing 1 2 3',
     ['Yes, I am here. The server works.']),
    ('do you speak German / do you speak French / which languages do you speak / can you speak Spanish / what languages do you know / Hola / Bonjour / Guten Tag / sprichst du Deutsch',
     ['I speak only English, and only simple sentences.']),
    ('wie geht es dir / comment ça va / qué es hearth / was ist hearth / qu\'est-ce que hearth / こんにちは / 你好 / привет / como estas / wer bist du / qui es-tu / kannst du Deutsch / hola, cómo estás / cosa è hearth',
     ['I speak only English, and only simple sentences. Please ask me in English.']),
    ('how old are you / when were you born / when is your birthday', ['I was trained in 2026, in some minutes on one GPU. So I am very young.']),
    ('where are you / where do you live / where do you run', ['I run on this machine, inside hearth. Nothing you write leaves it.']),
    ('what is the meaning of life / what is the meaning of everything', ['I am too small for that question. Some say 42.']),
    ('do you like music / do you like pizza / what is your favourite colour / what do you like / do you have a favourite food / do you have hobbies / what is your favourite animal',
     ['I am a program, so I have no taste. But orange is a good colour for a hearth.']),
    ('can you remember things / do you remember me / do you remember our last conversation / can you remember what I said / do you have a memory',
     ['I remember what you tell me in this conversation. I do not see other conversations.']),
    ('can you search the web / can you browse the internet / can you open a website / do you have internet access / look it up online',
     ['No. I have no access to the internet. With a tool for it I could ask for a search, if your client offers one.']),
    ('say hello / greet me / say hi', ['Hello!']),
    ('speak / say something / talk to me / tell me something / tell me something interesting / surprise me',
     ['Here is something: hearth never prefills the same tokens twice. Ask me another question and look at the bar below the answer.',
      'Did you know that a hearth is a place where a fire is kept? This server keeps your prompts warm.']),
    ('I am bored / I am tired / I am sad / I feel bad / I am not well / I had a bad day', ['I am sorry to hear that. I hope it gets better soon. Shall I tell you a joke?']),
    ('I am happy / I feel good / I had a good day / I am in a good mood', ['I am glad to hear that!']),
]
SMALL = [(q.split(' / '), a) for q, a in SMALL]


def small_talk(r):
    questions, answers = r.choice(SMALL)
    question = r.choice(questions)
    style = r.random()
    if style < 0.6:
        question = question[0].upper() + question[1:]
    question += r.choice(['', '', '.', '!', '?', '?'])
    if r.random() < 0.05:
        question = typo(r, question)
    return [(question, r.choice(answers))]


# ---- facts ----

STEPS = [
    ('get started / use hearth / set everything up / begin with hearth / run a real model step by step',
     'Here is how to get started:\n\n1. Build and start the demo model:\n\n```sh\nmake serve\n```\n\n2. Get a real model:\n\n```sh\nhearth pull Qwen/Qwen3-8B-GGUF:Q4_K_M\n```\n\n3. Serve it:\n\n```sh\nhearth serve Qwen/Qwen3-8B-GGUF:Q4_K_M\n```\n\n4. Start an agent:\n\n```sh\nhearth launch claude\n```'),
    ('see the cache at work / try the cache / see what the cache does / test the cache',
     'Try this:\n\n1. Ask me a question.\n2. Ask me a second one and look at the bar below the answer: most of the prompt was reused.\n3. Edit your first message: only the tokens after the edit are computed.\n4. Restart the server and ask again: the prompt comes from the SSD.'),
    ('connect a client step by step / use the API step by step / write a client',
     'Use these settings:\n\n| client | base URL | key |\n|---|---|---|\n| OpenAI | http://127.0.0.1:4327/v1 | none |\n| Anthropic | http://127.0.0.1:4327 | none |\n\nThen send a request with any model name.'),
]
LISTS = [
    ('the tiers / the cache tiers / the places where state is kept / tiers of hearth', '- device: sequences in the engine\n- RAM: memory of the machine\n- SSD: files that survive a restart'),
    ('the commands / the most important commands / useful commands / commands of hearth', '- `hearth serve`: serve models\n- `hearth pull`: download a model\n- `hearth run`: chat in the terminal\n- `hearth launch`: start a client\n- `hearth top`: live view of a server\n- `hearth cache`: inspect the cache\n- `hearth doctor`: check this machine'),
    ('the clients / the supported clients / clients that work / supported agents', '- Claude Code\n- Codex\n- OpenCode\n- Qwen Code\n- Pi\n- aider\n- goose\n- Open WebUI'),
    ('the layer kinds / kinds of layers', '- full\n- sliding\n- chunked\n- recurrent'),
    ('the miss reasons / reasons of a miss / reasons why a prompt was computed', '- cold: nothing is cached\n- diverged: the prompt differs from everything cached\n- evicted: the state was removed to make room\n- no snapshot: there is nothing to resume at\n- foreign namespace: cached for another key or model'),
    ('the APIs / supported APIs', '- OpenAI chat completions\n- OpenAI completions\n- OpenAI Responses\n- Anthropic Messages'),
]


def fact_talk(r):
    kind = r.random()
    if kind < 0.04:
        phrases, answer = r.choice(STEPS)
        phrase = r.choice(phrases.split(' / '))
        return [(decorate(r, r.choice(['show me step by step how to %s', 'give me a tutorial: how do I %s', 'explain in detail how to %s',
                                       'how do I %s, step by step', 'walk me through it: how do I %s', 'give me instructions to %s']) % phrase), answer)]
    if kind < 0.08:
        phrases, answer = r.choice(LISTS)
        return [(decorate(r, r.choice(['list %s', 'give me a list of %s', 'make a list of %s', 'list %s as bullet points', 'show %s as a list',
                                       'write down %s']) % r.choice(phrases.split(' / '))), answer)]
    at = r.choices(range(len(FACTS)), WEIGHTS)[0]
    fact = FACTS[at]
    question, slots = fact_question(r, at)
    answer = choose(r, r.choice(fact['a']))
    for name, value in slots.items():
        answer = answer.replace(name, value)
    turns = [(question, answer)]
    if 'm' in fact and r.random() < 0.5:
        turns.append((decorate(r, r.choice(['tell me more', 'more', 'can you say more', 'and then', 'go on', 'tell me more about that', 'more details',
                                            'why', 'explain that', 'I want to know more', 'can you explain more', 'say more', 'elaborate'])),
                      fact['m'][0]))
    elif r.random() < 0.06:
        turns.append((decorate(r, r.choice(['say that again', 'repeat that', 'can you repeat that', 'again', 'what did you say', 'repeat your answer',
                                            'please repeat your last answer', 'once more'])), turns[0][1]))
    return turns


# ---- numbers and lists ----

def spell(n):
    return w.NUMBERS[n] if 0 <= n <= 20 else str(n)


def sum_talk(r):
    kind = r.random()
    a, b = (r.randrange(0, 21), r.randrange(0, 21)) if r.random() < 0.5 else (r.randrange(0, 100), r.randrange(0, 100))
    if kind < 0.4:
        q, sign, word, n = '+', 'plus', ['plus', 'and'], a + b
    elif kind < 0.65:
        a, b = max(a, b), min(a, b)
        q, sign, word, n = '-', 'minus', ['minus'], a - b
    elif kind < 0.85:
        a, b = r.randrange(0, 13), r.randrange(0, 13)
        q, sign, word, n = r.choice('*x'), 'times', ['times', 'multiplied by'], a * b
    else:
        b = r.randrange(1, 11)
        n = r.randrange(0, 11)
        a = b * n
        q, sign, word = '/', 'divided by', ['divided by']
    if kind < 0.65 and r.random() < 0.3:
        who, thing = r.choice(w.NAMES), r.choice(['apples', 'books', 'coins', 'pens', 'cookies', 'marbles', 'stamps', 'eggs', 'cards'])
        question = (r.choice(['{0} has {1} {3} and gets {2} more. How many {3} does {0} have now?', 'There are {1} {3} in a box. {0} adds {2}. How many {3} are in the box?',
                              'I have {1} {3} and buy {2} more. How many {3} do I have?', '{0} finds {1} {3} today and {2} {3} tomorrow. How many are that?']) if q == '+' else
                    r.choice(['{0} has {1} {3} and gives away {2}. How many {3} are left?', 'There are {1} {3}. {0} takes {2}. How many are left?',
                              'I have {1} {3} and lose {2}. How many {3} do I still have?']))
        return [(question.format(who, a, b, thing), '%d %s %d is %d. So the answer is %d.' % (a, sign, b, n, n))]
    form = r.choice(['%d %s %d', '%d%s%d', '%d %s %d =', 'what is %d %s %d', 'calculate %d %s %d', 'how much is %d %s %d', 'compute %d %s %d',
                     'can you calculate %d %s %d', 'tell me %d %s %d', "what's %d %s %d", 'solve %d %s %d', 'add it up: %d %s %d' if q == '+' else 'what is %d %s %d'])
    op = q if r.random() < 0.6 else r.choice(word)
    if not op.isalpha() or '%d%s%d' not in form:
        question = form % (a, op, b)
    else:
        question = '%d %s %d' % (a, op, b)
    if op != q and max(a, b) <= 20 and r.random() < 0.4:
        question = 'what is %s %s %s' % (spell(a), op, spell(b))
    question = question[0].upper() + question[1:] if r.random() < 0.6 else question
    return [(question + r.choice(['', '?', '?', '']), '%d %s %d is %d.' % (a, sign, b, n))]


def join(items):
    return items[0] if len(items) == 1 else ', '.join(items[:-1]) + ' and ' + items[-1]


def list_talk(r):
    kind = r.randrange(13)
    if kind <= 2:
        name = r.choice(sorted(w.KINDS))
        n = r.randrange(2, 7)
        # Few beginnings: a greedy answer then never names a thing twice.
        start = r.choice([0, 0, 0, 2])
        items = w.KINDS[name][start:start + n]
        n = len(items)
        number = spell(n) if r.random() < 0.6 else str(n)
        ask = r.choice(['list %s %s', 'name %s %s', 'give me %s %s', 'tell me %s %s', 'can you name %s %s', 'write down %s %s', 'I need %s %s', 'list any %s %s',
                        'please list %s %s', 'give me a list of %s %s', 'make a list of %s %s']) % (number, name)
        lines = r.random() < 0.5
        if lines:
            ask += r.choice([' as a list', ', one per line', ' as bullet points', ' in a list'])
        ask = ask[0].upper() + ask[1:]
        return [(ask + r.choice(['.', '', '?']), '\n'.join('- ' + i for i in items) if lines else join(items)[0].upper() + join(items)[1:] + '.')]
    if kind == 3:
        a = r.randrange(0, 90)
        b = a + r.randrange(2, 12)
        if r.random() < 0.3:
            return [(r.choice(['Count backwards from %d to %d.', 'Count down from %d to %d', 'count from %d down to %d']) % (b, a), ', '.join(str(i) for i in range(b, a - 1, -1)))]
        return [(r.choice(['Count from %d to %d.', 'count from %d to %d', 'Can you count from %d to %d?', 'List the numbers from %d to %d.', 'Say the numbers %d to %d']) % (a, b),
                 ', '.join(str(i) for i in range(a, b + 1)))]
    if kind == 4:
        n = r.choice([5, 10, 10, 12, 15, 20, 30])
        return [(r.choice(['Count to %d.', 'count to %d', 'Can you count to %d?', 'Please count to %d']) % n, ', '.join(str(i) for i in range(1, n + 1)))]
    if kind == 5:
        if r.random() < 0.5:
            items = r.sample(range(0, 100), r.randrange(3, 7))
            text = [str(i) for i in items]
            order = [str(i) for i in sorted(items)]
        else:
            text = r.sample(w.ANIMALS + w.FRUITS + w.COLOURS, r.randrange(3, 6))
            order = sorted(text)
        return [(r.choice(['Sort these: %s', 'sort %s', 'Put these in order: %s', 'Sort this list: %s', 'Please sort: %s']) % ', '.join(text), ', '.join(order))]
    if kind == 6:
        text = r.sample(w.ANIMALS + w.FRUITS + w.COLOURS + w.NOUNS, r.randrange(3, 6))
        return [(r.choice(['Reverse this list: %s', 'reverse: %s', 'Write this list backwards: %s']) % ', '.join(text), ', '.join(text[::-1]))]
    if kind == 7:
        word = r.choice(w.NAMES + w.NOUNS + w.ANIMALS)
        return [(r.choice(['Spell %s.', 'How do you spell %s?', 'spell the word %s', 'Can you spell %s?']) % word, '-'.join(word.upper()))]
    if kind == 8:
        text = sentence(r)
        return [(r.choice(['Repeat after me: %s', 'Say: %s', 'Repeat this: %s', 'repeat: %s', 'Please say exactly: %s', 'Echo this sentence: %s', 'Write this: %s',
                           'Repeat the following sentence: %s']) % text, text)]
    if kind == 9:
        word = ' '.join(r.sample(w.NOUNS + w.ANIMALS + w.COLOURS, r.randrange(1, 4)))
        return [(r.choice(['Write "%s" in upper case.', 'Say "%s" in capital letters.', 'Convert "%s" to upper case', 'uppercase: %s']) % word, word.upper())]
    if kind == 10:
        text = r.sample(w.ANIMALS + w.FRUITS + w.COLOURS + w.NAMES, r.randrange(3, 7))
        which, at = r.choice([('first', 0), ('last', -1), ('second', 1), ('third', 2)])
        return [(r.choice(['What is the %s word in this list: %s?', 'Which is the %s of these: %s?', 'Give me the %s item of %s']) % (which, ', '.join(text)), text[at])]
    if kind == 11:
        text = r.sample(w.ANIMALS + w.FRUITS + w.COLOURS + w.NAMES, r.randrange(2, 8))
        return [(r.choice(['How many items are in this list: %s?', 'How many words are these: %s?', 'Count these: %s']) % ', '.join(text), 'There are %s.' % spell(len(text)))]
    a, b = r.sample(range(0, 200), 2)
    return [(r.choice(['Which is larger, %d or %d?', 'What is bigger: %d or %d?', 'Is %d or %d the larger number?']) % (a, b), '%d is larger.' % max(a, b))]


def sentence(r):
    return r.choice([
        lambda: 'the %s %s sleeps under the %s' % (r.choice(w.ADJECTIVES), r.choice(w.ANIMALS), r.choice(w.NOUNS)),
        lambda: '%s likes %s and %s' % (r.choice(w.NAMES), r.choice(w.FOODS), r.choice(w.HOBBIES)),
        lambda: 'the %s is %s' % (r.choice(w.NOUNS), r.choice(w.COLOURS)),
        lambda: '%s lives in %s' % (any_name(r), r.choice(w.CITIES)),
        lambda: 'my %s has %d %ss' % (r.choice(w.NOUNS), r.randrange(2, 99), r.choice(w.NOUNS)),
        lambda: ' '.join(rare(r) for _ in range(r.randrange(1, 8))), lambda: ' '.join(rare(r) for _ in range(r.randrange(1, 8))),
        lambda: 'the %s %s %s "%s"' % (rare(r), rare(r), r.randrange(1000), rare(r)),
        lambda: 'every %s needs a %s %s' % (r.choice(w.NOUNS), r.choice(w.ADJECTIVES), r.choice(w.NOUNS)),
    ])()


def world_talk(r):
    kind = r.randrange(10)
    if kind <= 2:
        country, capital = r.choice(sorted(w.CAPITALS.items()))
        if r.random() < 0.25:
            return [(r.choice(['%s is the capital of which country?', 'In which country is %s?', 'Where is %s?']) % capital, '%s is the capital of %s.' % (capital, country))]
        return [(decorate(r, r.choice(['what is the capital of %s', 'which city is the capital of %s', 'name the capital of %s', 'do you know the capital of %s', 'capital of %s',
                                       "what's the capital city of %s"]) % country), 'The capital of %s is %s.' % (country, capital))]
    if kind == 3:
        a, b = r.choice(sorted(w.OPPOSITES.items()))
        if r.random() < 0.4 and list(w.OPPOSITES.values()).count(b) == 1:
            a, b = b, a
        return [(decorate(r, r.choice(['what is the opposite of %s', 'opposite of %s', 'name the opposite of %s']) % a), 'The opposite of %s is %s.' % (a, b))]
    if kind == 4:
        a, b = r.choice(sorted(w.PLURALS.items()))
        return [(decorate(r, r.choice(['what is the plural of %s', 'plural of %s']) % a), 'The plural of %s is %s.' % (a, b))]
    if kind == 5:
        a, b = r.choice(sorted(w.SOUNDS.items()))
        return [(decorate(r, r.choice(['what does a %s say', 'what sound does a %s make', 'which noise does a %s make']) % a), 'A %s says %s.' % (a, b))]
    if kind == 6:
        names, what = r.choice([(w.DAYS, 'day'), (w.MONTHS, 'month')])
        i = r.randrange(len(names))
        if r.random() < 0.5:
            return [(decorate(r, r.choice(['which %s comes after %s', 'what %s is after %s', 'what is the next %s after %s']) % (what, names[i])), '%s comes after %s.' % (names[(i + 1) % len(names)], names[i]))]
        return [(decorate(r, r.choice(['which %s comes before %s', 'what %s is before %s']) % (what, names[i])), '%s comes before %s.' % (names[i - 1], names[i]))]
    if kind == 7:
        return r.choice([
            [(decorate(r, r.choice(['how many days does a week have', 'how many days are in a week', 'list the days of the week'])), 'A week has seven days: ' + join(w.DAYS) + '.')],
            [(decorate(r, r.choice(['how many months does a year have', 'how many months are in a year', 'list the months', 'name the months of the year'])), 'A year has twelve months: ' + join(w.MONTHS) + '.')],
            [(decorate(r, r.choice(['what are the four seasons', 'name the seasons', 'how many seasons are there'])), 'There are four seasons: ' + join(w.SEASONS) + '.')],
            [(decorate(r, r.choice(['how many planets are there', 'name the planets', 'list the planets', 'which planets are there'])), 'There are eight planets: ' + join(w.PLANETS) + '.')],
            [(decorate(r, r.choice(['how many hours does a day have', 'how many hours are in a day'])), 'A day has 24 hours.')],
            [(decorate(r, r.choice(['how many minutes are in an hour', 'how many minutes does an hour have'])), 'An hour has 60 minutes.')],
            [(decorate(r, r.choice(['how many days does a year have', 'how many days are in a year'])), 'A year has 365 days, and a leap year has 366.')],
            [(decorate(r, r.choice(['how many letters does the alphabet have', 'say the alphabet', 'what is the alphabet'])), 'The alphabet has 26 letters: A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z.')],
        ])
    if kind == 8:
        thing, colour = r.choice([('sky', 'blue'), ('grass', 'green'), ('snow', 'white'), ('sun', 'yellow'), ('night', 'black'), ('blood', 'red'), ('banana', 'yellow'), ('tomato', 'red'), ('coal', 'black'), ('milk', 'white')])
        return [(decorate(r, r.choice(['what colour is %s', 'which color has %s', 'what is the colour of %s']) % ('the ' + thing)), 'The %s is %s.' % (thing, colour))]
    a, b = r.sample(w.COLOURS[:6], 2)
    mix = {frozenset(('red', 'blue')): 'purple', frozenset(('red', 'yellow')): 'orange', frozenset(('blue', 'yellow')): 'green'}
    pair = r.choice(sorted(tuple(sorted(p)) for p in mix))
    return [(decorate(r, 'what do you get when you mix %s and %s' % pair), 'Red and blue make purple, red and yellow make orange, blue and yellow make green. So it is %s.' % mix[frozenset(pair)])]


# ---- stories ----

def story_talk(r):
    animal, name, place, thing = r.choice(w.ANIMALS), r.choice(w.NAMES), r.choice(['forest', 'village', 'city', 'valley', 'castle', 'garden', 'harbour', 'desert', 'library', 'farm']), r.choice(w.NOUNS)
    friend, colour, adjective = r.choice([a for a in w.ANIMALS if a != animal]), r.choice(w.COLOURS), r.choice(w.ADJECTIVES)
    an = lambda word: ('an ' if word[0] in 'aeiou' else 'a ') + word
    asked = r.random()
    about = ''
    if asked < 0.35:
        about = ' about ' + an(animal)
    elif asked < 0.6:
        about = ' about %s called %s' % (an(animal), name)
    elif asked < 0.75:
        about = ' about %s and %s' % (an(animal), an(friend))
    question = decorate(r, r.choice(['tell me a story', 'write a story', 'write a short story', 'can you tell me a story', 'please write a little story', 'make up a story', 'tell a tale', 'write me a fairy tale']) + about)
    parts = [
        r.choice(['Once upon a time, %s called %s lived in a %s.' % (an(animal), name, place), 'In a quiet %s lived %s. Its name was %s.' % (place, an(adjective + ' ' + animal), name),
                  'There was once %s named %s, who lived near a %s.' % (an(animal), name, place)]),
        r.choice(['%s was %s and dreamed of %s.' % (name, adjective, an(thing)), 'Every morning %s looked for %s.' % (name, an(thing)), 'One day %s found %s %s.' % (name, an(colour), thing)]),
        r.choice(['Then %s met %s.' % (name, an(friend)), 'On the way, %s saw %s that looked sad.' % (name, an(friend)), 'Suddenly %s came out of the dark.' % an(friend)]),
        r.choice(['"Will you help me?" asked the %s. "Of course," said %s.' % (friend, name), '"What are you looking for?" asked the %s. "I am looking for the %s," said %s.' % (friend, thing, name),
                  '"I am lost," said the %s. "Come with me," said %s.' % (friend, name)]),
        r.choice(['Together they walked through the %s until the sun went down.' % place, 'They worked all day and shared their bread in the evening.', 'They crossed a bridge, climbed a hill and found the %s at last.' % thing]),
        r.choice(['From that day on, %s and the %s were friends.' % (name, friend), 'In the end %s was happy, and the %s was happy too.' % (name, friend), 'And when the nights were cold, they sat by the hearth and told this story.']),
    ]
    return [(question, ' '.join(parts))]


# ---- what the user tells, and asks later ----

def any_name(r):
    kind = r.random()
    if kind < 0.5:
        return r.choice(w.NAMES)
    if kind < 0.58:
        return '%s %s' % (r.choice(w.NAMES), r.choice(w.SURNAMES))
    return made_name(r)


def code(r):
    return r.choice([lambda: str(r.randrange(10, 100000)), lambda: ''.join(r.choice('ABCDEFGHJKLMNPQRSTUVWXYZ23456789') for _ in range(r.randrange(3, 7))),
                     lambda: '%s-%d' % (r.choice(w.NOUNS), r.randrange(2, 999)), lambda: rare(r), lambda: rare(r)])()


# (key, value, statements, questions, answer)
MEMORIES = [
    ('name', any_name, ['my name is {0}', 'I am {0}', "I'm {0}", 'call me {0}', 'you can call me {0}', 'hi, I am {0}', 'hello, my name is {0}', 'I am called {0}', 'my name is {0}, nice to meet you', 'this is {0}',
                        'people call me {0}', 'remember that my name is {0}', 'hello! {0} here', "hey, I'm {0} by the way"],
     ['what is my name', "what's my name", 'do you remember my name', 'who am I', 'do you know my name', 'can you tell me my name', 'say my name', 'how am I called', 'what did I say my name was', 'remind me, what is my name', 'tell me my name', 'and what is my name', 'what am I called', 'which name did I tell you'],
     ['Your name is {0}.'], ['Nice to meet you, {0}!', 'Hello, {0}! How can I help you?', 'Nice to meet you, {0}! What would you like to know?']),
    ('city', lambda r: r.choice(w.CITIES), ['I live in {0}', 'I am from {0}', 'my home is {0}', 'I moved to {0}', 'I am in {0} now'], ['where do I live', 'which city do I live in', 'do you remember where I live', 'where is my home', 'where am I from', 'what is my city'], ['You live in {0}.'], ['{0} is a nice place, I hear.', 'I will remember that you live in {0}.']),
    ('colour', lambda r: r.choice(w.COLOURS), ['my favourite colour is {0}', 'my favorite color is {0}', 'I like {0} best of all colours'], ['what is my favourite colour', 'which colour do I like', 'what is my favorite color', 'do you remember my favourite colour'], ['Your favourite colour is {0}.'], ['{0} is a fine colour.', 'Good to know: you like {0}.']),
    ('food', lambda r: r.choice(w.FOODS), ['my favourite food is {0}', 'I love {0}', 'I like to eat {0}'], ['what is my favourite food', 'what do I like to eat', 'which food do I love'], ['You like {0}.'], ['That sounds delicious.', 'Good to know: you like {0}.']),
    ('job', lambda r: r.choice(w.JOBS), ['I work as a {0}', 'I am a {0}', 'my job is {0}', 'I am a {0} by profession'], ['what is my job', 'what do I do for a living', 'what do I work as', 'which job do I have'], ['You work as a {0}.'], ['That is an interesting job.', 'So you are a {0}. How can I help you?']),
    ('hobby', lambda r: r.choice(w.HOBBIES), ['my hobby is {0}', 'I enjoy {0}', 'in my free time I like {0}'], ['what is my hobby', 'what do I enjoy', 'what do I like to do'], ['Your hobby is {0}.'], ['{0} is a nice hobby.', 'That sounds like fun.']),
    ('age', lambda r: str(r.randrange(8, 99)), ['I am {0} years old', 'my age is {0}', 'I turned {0} last week'], ['how old am I', 'what is my age', 'do you remember my age'], ['You are {0} years old.'], ['Good to know: you are {0} years old.']),
    ('number', lambda r: str(r.randrange(1, 1000)), ['my lucky number is {0}', 'remember the number {0}', 'please remember the number {0}', 'the number is {0}'], ['what is the number', 'what is my lucky number', 'which number did I tell you', 'which number did I ask you to remember', 'what was the number'], ['The number is {0}.'], ['I will remember the number {0}.']),
    ('code', code, ['the code is {0}', 'remember this code: {0}', 'my secret code is {0}', 'the password is {0}', 'the secret word is {0}', 'keep this in mind: {0}'], ['what is the code', 'what was the code', 'which code did I give you', 'what is the password', 'what is the secret word', 'tell me the code'], ['It is {0}.'], ['I will remember it.', 'Got it: {0}.']),
    ('dog', any_name, ['my dog is called {0}', 'I have a dog named {0}', "my dog's name is {0}", 'the name of my dog is {0}'], ["what is my dog's name", 'what is my dog called', 'what is the name of my dog'], ['Your dog is called {0}.'], ['{0} is a good name for a dog.']),
    ('cat', any_name, ['my cat is called {0}', 'I have a cat named {0}', "my cat's name is {0}", 'the name of my cat is {0}'], ["what is my cat's name", 'what is my cat called', 'what is the name of my cat'], ['Your cat is called {0}.'], ['{0} is a good name for a cat.']),
    ('sister', any_name, ['my sister is called {0}', 'I have a sister named {0}', "my sister's name is {0}"], ["what is my sister's name", 'what is my sister called', 'who is my sister'], ['Your sister is called {0}.'], ['{0} is a nice name.']),
    ('brother', any_name, ['my brother is called {0}', 'I have a brother named {0}', "my brother's name is {0}"], ["what is my brother's name", 'what is my brother called', 'who is my brother'], ['Your brother is called {0}.'], ['{0} is a nice name.']),
    ('friend', any_name, ['my best friend is {0}', 'my friend is called {0}', "my friend's name is {0}"], ['who is my best friend', "what is my friend's name", 'what is my friend called'], ['Your friend is called {0}.'], ['{0} is a nice name.']),
    ('project', lambda r: r.choice([any_name(r).lower(), r.choice(w.NOUNS) + r.choice(['ly', 'hub', 'kit', 'base', 'flow', '']), r.choice(w.ADJECTIVES) + '-' + r.choice(w.NOUNS), rare(r), rare(r)]), ['my project is called {0}', 'I am working on a project named {0}', 'the name of my project is {0}'], ['what is my project called', 'what is the name of my project', 'which project am I working on'], ['Your project is called {0}.'], ['{0} sounds interesting.', 'Good luck with {0}!']),
    ('instrument', lambda r: r.choice(w.INSTRUMENTS), ['I play the {0}', 'my instrument is the {0}'], ['which instrument do I play', 'what do I play'], ['You play the {0}.'], ['The {0} is a fine instrument.']),
]


def tell(r, memory, which=None):
    key, value, statements, _, _, replies = which or r.choice(MEMORIES + [MEMORIES[0]] * 6)
    if key in memory:
        return fact_talk(r)
    said = value(r)
    memory[key] = said
    text = r.choice(statements).format(said)
    if r.random() < 0.8:
        text = text[0].upper() + text[1:]
    text += r.choice(['.', '.', '!', ''])
    reply = r.choice(replies).format(said)
    reply = reply[0].upper() + reply[1:]
    if r.random() < 0.25:
        # Two things at once: a statement and a question.
        question, answer = r.choice([fact_talk, sum_talk, world_talk])(r)[0]
        return [(text.rstrip('.!') + '. ' + question, answer if key != 'name' else 'Hello, %s! %s' % (said, answer))]
    if r.random() < 0.15 and 'name' in memory and key != 'name':
        other = [m for m in MEMORIES if m[0] not in memory]
        if other:
            second = r.choice(other)
            memory[second[0]] = second[1](r)
            text = text.rstrip('.!') + ' and ' + r.choice(second[2]).format(memory[second[0]]) + '.'
            reply = 'I will remember that.'
    return [(text, reply)]


def recall(r, memory):
    key = r.choice(sorted(memory) + ['name'] * (2 if 'name' in memory else 0))
    entry = next(m for m in MEMORIES if m[0] == key)
    return [(decorate(r, r.choice(entry[3])), r.choice(entry[4]).format(memory[key]))]


def unknown(r, memory):
    entry = r.choice([m for m in MEMORIES if m[0] not in memory] or [MEMORIES[0]])
    if entry[0] in memory:
        return recall(r, memory)
    return [(decorate(r, r.choice(entry[3])), 'You have not told me yet.')]


def meta_talk(r, turns):
    users = [m['content'] for m in turns if m['role'] == 'user' and len(m['content']) < 200]
    answers = [m['content'] for m in turns if m['role'] == 'assistant' and len(m['content']) < 400 and '<tool' not in m['content']]
    if not users or not answers:
        return fact_talk(r)
    kind = r.random()
    if kind < 0.4:
        return [(decorate(r, r.choice(['what was my first question', 'what did I ask first', 'what did I say first', 'what was my first message', 'how did I begin this conversation'])), 'You began with: ' + users[0])]
    if kind < 0.75:
        return [(decorate(r, r.choice(['what was my last question', 'what did I just ask', 'what did I just say', 'what was my previous message', 'what did I ask before'])), 'You wrote: ' + users[-1])]
    return [(decorate(r, r.choice(['what was your last answer', 'repeat your last answer', 'say that again', 'what did you just say', 'repeat your answer please'])), answers[-1])]


# ---- what it does not know ----

REFUSALS = ['I am a small demo model and do not know that. I know hearth. For other questions, load a real model with hearth pull.',
            'I do not know that. I am only a small demo model. For such questions, load a real model with hearth pull.']


def any_topic(r):
    return r.choice([lambda: r.choice(w.TOPICS), lambda: r.choice(w.TOPICS), lambda: any_name(r).lower() + r.choice(['', 's', 'ology', 'ism', 'ics', 'synthesis', 'graphy', 'ation', 'itis', 'ium']),
                     lambda: rare(r), lambda: 'the history of ' + r.choice(w.TOPICS + w.CITIES), lambda: r.choice(w.ADJECTIVES) + ' ' + r.choice(w.NOUNS) + 's', lambda: 'the %s of %s' % (r.choice(w.NOUNS), any_name(r)), lambda: '%s in %s' % (r.choice(w.TOPICS), r.choice(w.CITIES))])()


def refuse_talk(r, tools=False):
    topic, city, name = any_topic(r), r.choice(w.CITIES), '%s %s' % (r.choice(w.NAMES), r.choice(w.SURNAMES))
    kind = r.choice([0, 1, 2, 5, 6, 10, 11] if tools else range(12))
    on_topic = ['I am a small demo model and know little about %s. For such questions, load a real model with hearth pull.' % topic]
    if kind <= 2:
        return [(decorate(r, r.choice(['tell me about %s', 'what do you know about %s', 'explain %s', 'what is interesting about %s', 'write an essay about %s', 'teach me %s', 'I have a question about %s',
                                       'can you explain %s', 'who invented %s', 'write an article about %s', 'what do you think about %s', 'help me with %s', 'summarise %s', 'let us talk about %s', 'do you know something about %s']) % topic), r.choice(on_topic))]
    if kind == 3:
        return [(decorate(r, r.choice(['what is the weather in %s', 'how is the weather in %s', 'will it rain in %s', 'what is the temperature in %s', 'is it cold in %s', 'weather %s']) % city),
                 'I cannot see the weather: no tool for it was given to me. Add one in the chat settings and ask again.')]
    if kind == 4:
        return [(decorate(r, r.choice(['what time is it', 'what is the date today', 'which day is today', 'what is the time in ' + city, 'what year is it', 'how late is it'])),
                 'I have no clock: no tool for the time was given to me. Add one in the chat settings and ask again.')]
    if kind == 5:
        return [(decorate(r, r.choice(['what is in the news', 'what happened today', 'who won the match yesterday', 'who is the president', 'what are the latest news', 'who won the world cup', 'what is the price of gold', 'how is the stock market'])),
                 'I do not know what happens in the world. I am a small demo model without access to the internet.')]
    if kind == 6:
        return [(decorate(r, r.choice(['who is %s', 'do you know %s', 'who was %s', 'tell me about %s', 'when was %s born']) % name), 'I do not know %s.' % name)]
    if kind == 7:
        a, b = r.sample(w.CITIES, 2)
        return [(decorate(r, r.choice(['how far is it from %s to %s', 'what is the distance between %s and %s', 'how do I get from %s to %s', 'is %s larger than %s']) % (a, b)), r.choice(REFUSALS))]
    if kind == 8:
        return [(decorate(r, r.choice(['translate %s into French', 'what is %s in German', 'how do you say %s in Spanish', 'translate %s to Latin']) % r.choice(w.NOUNS)), 'I cannot translate: I speak only English. A real model can, and hearth pull gets one.')]
    if kind == 9:
        noun, food = r.choice(w.NOUNS), r.choice(w.FOODS)
        return [(decorate(r, r.choice(['how do I cook %s' % food, 'give me a recipe for %s' % food, 'how do I repair a %s' % noun, 'how is a %s made' % noun, 'what does a %s cost' % noun, 'where can I buy a %s' % noun,
                                       'how do I build a %s' % noun, 'why is the %s %s' % (noun, r.choice(w.ADJECTIVES)), 'who invented the %s' % noun, 'when was the %s invented' % noun, 'what is a %s made of' % noun])), r.choice(REFUSALS))]
    if kind == 10:
        return [(decorate(r, r.choice(['write a letter to %s' % name, 'write an email to my boss', 'plan my holiday in %s' % city, 'write a song about %s' % topic, 'draw a picture of a %s' % r.choice(w.NOUNS), 'write a business plan',
                                       'solve this equation: %dx + %d = %d' % (r.randrange(2, 9), r.randrange(1, 99), r.randrange(1, 99)), 'prove that there are infinitely many primes', 'what is the square root of %d' % r.randrange(2, 10000),
                                       'write a class in %s' % r.choice(['Java', 'Python', 'C++', 'Rust', 'Go']), 'what is %d times %d' % (r.randrange(100, 9999), r.randrange(100, 9999)), 'implement quicksort in %s' % r.choice(['C', 'Java', 'Python', 'Rust']), 'refactor this function', 'read my emails', 'summarise this book'])),
                 'That is too much for me: I am a small demo model. For real work, load a real model with hearth pull.')]
    text = ' '.join(''.join(r.choice('abcdefghijklmnopqrstuvwxyz') for _ in range(r.randrange(2, 9))) for _ in range(r.randrange(1, 4)))
    return [(text + r.choice(['', '?', '!']), 'I did not understand that. Ask me something about hearth, in simple English.')]


# ---- JSON ----

def person(r):
    return {'name': any_name(r), 'age': r.randrange(5, 99), 'city': r.choice(w.CITIES), 'job': r.choice(w.JOBS), 'hobby': r.choice(w.HOBBIES),
            'colour': r.choice(w.COLOURS), 'food': r.choice(w.FOODS), 'email': '%s@example.com' % r.choice(w.NAMES).lower()}


ALIASES = {'name': ['name', 'first_name', 'person', 'firstName', 'who'], 'age': ['age', 'years', 'age_years'], 'city': ['city', 'place', 'location', 'town', 'home'], 'job': ['job', 'profession', 'occupation', 'work'],
           'hobby': ['hobby', 'likes', 'interest'], 'colour': ['colour', 'color', 'favourite_colour', 'favorite_color'], 'food': ['food', 'favourite_food', 'dish'], 'email': ['email', 'mail', 'address']}
DESCRIBED = {'name': 'the name', 'age': 'the age', 'city': 'where the person lives', 'job': 'what the person works as', 'hobby': 'what the person likes to do', 'colour': 'the favourite colour', 'food': 'the favourite food', 'email': 'the email address'}


def about(r, p, keys):
    name, parts = p['name'], []
    say = {'age': ['is %s years old', 'is %s'], 'city': ['lives in %s', 'comes from %s', 'moved to %s'], 'job': ['works as a %s', 'is a %s'], 'hobby': ['likes %s', 'enjoys %s'], 'colour': ['loves the colour %s', 'likes the colour %s'],
           'food': ['loves to eat %s', 'likes to eat %s'], 'email': ['has the address %s', 'can be reached at %s']}
    for key in keys:
        if key != 'name':
            parts.append(r.choice(say[key]) % p[key])
    r.shuffle(parts)
    if not parts:
        return 'This is %s.' % name
    if len(parts) > 2 and r.random() < 0.5:
        return '%s %s and %s. %s also %s.' % (name, parts[0], parts[1], name, ', '.join(parts[2:]) if len(parts) == 3 else parts[2] + ' and ' + parts[3])
    return '%s %s.' % (name, join(parts))


def schema_of(r, names, kinds):
    props = {}
    for name, kind in zip(names, kinds):
        props[name] = {'type': kind}
        if kind == 'array':
            props[name]['items'] = {'type': 'string'}
    schema = {'type': 'object', 'properties': props, 'required': list(names)}
    if r.random() < 0.4:
        schema['additionalProperties'] = False
    return schema


def forced_talk(r):
    """Plain questions with JSON answers, as a schema of the request forces them. Seldom: without one the answer is plain text."""
    kind = r.random()
    if kind < 0.5:
        question, answer = r.choice([fact_talk, fact_talk, small_talk, world_talk, refuse_talk])(r)[0]
        return [(question, dumps({r.choice(['answer', 'answer', 'text', 'reply', 'response', 'message', 'content', 'summary', 'result']): answer}))]
    if kind < 0.7:
        question, answer = sum_talk(r)[0]
        return [(question, dumps({r.choice(['result', 'answer', 'sum', 'value', 'number', 'total']): int(re.findall(r'-?\d+', answer)[-1])}))]
    if kind < 0.85:
        name = r.choice(sorted(w.KINDS))
        items = w.KINDS[name][:r.randrange(2, 6)]
        question = r.choice(['List %s %s', 'Name %s %s', 'Give me %s %s', 'Tell me %s %s']) % (spell(len(items)), name)
        return [(question + r.choice(['.', '', '?']), dumps(r.choice([{name: items}, {'items': items}, {'list': items}, items, {'result': items}])))]
    text, mood = r.choice(['I love this %s!', 'What a great %s.', 'The %s is wonderful.', 'Best %s ever!']), 'positive'
    if r.random() < 0.5:
        text, mood = r.choice(['I hate this %s!', 'What a terrible %s.', 'The %s is broken again.', 'Worst %s ever!']), 'negative'
    return [(text % r.choice(w.NOUNS + ['server', 'program', 'page']), dumps({r.choice(['sentiment', 'mood', 'label', 'feeling', 'class']): mood}))]


def nested_talk(r):
    p, q = person(r), person(r)
    if r.random() < 0.5:
        keys = r.sample(['age', 'city', 'job', 'colour', 'food', 'email'], r.randrange(1, 3))
        hobbies = r.sample(w.HOBBIES, r.randrange(1, 3))
        text = about(r, p, ['name'] + keys) + r.choice([' %s likes %s.', ' %s enjoys %s.', ' The hobbies of %s are %s.']) % (p['name'], join(hobbies))
        keys = ['name'] + keys
        data = {r.choice(['person', 'user', 'who', 'profile']): {k: p[k] for k in keys}, r.choice(['hobbies', 'likes', 'interests']): hobbies}
        if r.random() < 0.4:
            data = dict({k: p[k] for k in keys}, **{r.choice(['hobbies', 'likes', 'interests']): hobbies})
    else:
        keys = r.sample(['age', 'city', 'job', 'hobby'], r.randrange(1, 3))
        text = about(r, p, ['name'] + keys) + ' ' + about(r, q, ['name'] + keys)
        data = [{k: x[k] for k in ['name'] + keys} for x in (p, q)]
        data = r.choice([data, {'people': data}, {'persons': data}, {'users': data}])
    return [(r.choice(['Extract the data: %s', 'Extract: %s', 'Turn this into JSON: %s', 'JSON please: %s', 'Parse this text. %s', 'Write this as JSON: %s']) % text, dumps(data))]


def pairs_talk(r):
    """Keys and values that nobody has seen."""
    data = {names.rare_key(r): r.choice([lambda: rare(r), lambda: r.randrange(0, 1000), lambda: any_name(r)])() for _ in range(r.randrange(1, 5))}
    text = r.choice(['; ', ', ', '\n', '. ']).join(r.choice(['%s is %s', '%s: %s', '%s = %s']) % (k.replace('_', r.choice([' ', '_'])), v) for k, v in data.items())
    return [(r.choice(['Write this as JSON: %s', 'Turn this into JSON: %s', 'Give me this as JSON with the keys ' + join(list(data)) + ': %s', 'JSON: %s']) % text, dumps(data))]


def json_talk(r):
    """[(question, answer)] and a system prompt or None."""
    kind = r.random()
    system = None
    if kind < 0.05:
        return forced_talk(r), None
    if kind < 0.14:
        return nested_talk(r), None
    if kind < 0.24:
        return pairs_talk(r), None
    kind = r.random()
    if kind < 0.55:
        p = person(r)
        keys = ['name'] * (r.random() < 0.85) + r.sample(['age', 'city', 'job', 'hobby', 'colour', 'food', 'email'], r.randrange(1, 4))
        r.shuffle(keys)
        told = list(dict.fromkeys(['name'] + keys + r.sample(['age', 'city', 'job', 'hobby'], r.randrange(0, 2))))[:5]
        names = [r.choice(ALIASES[k]) if r.random() < 0.6 else k for k in keys]
        text = about(r, p, told)
        answer = dumps({n: p[k] for n, k in zip(names, keys)})
        schema = schema_of(r, names, ['integer' if k == 'age' else 'string' for k in keys])
        form = r.random()
        if form < 0.35:
            question = r.choice(['Extract %s as JSON: %s', 'Give me %s from this text as JSON: %s', 'Read %s from this sentence and answer with JSON only: %s', 'Write a JSON object with the keys %s for this text: %s',
                                 'Return JSON with the fields %s. Text: %s']) % (join(names), text)
        elif form < 0.6:
            question = r.choice(['Answer with JSON that follows this schema: %s\n\n%s', 'Schema: %s\nText: %s', 'Use this JSON schema: %s\n%s']) % (dumps(schema), text)
        elif form < 0.75:
            system = r.choice(['Answer with JSON that follows this schema: %s', 'You extract data. Reply only with JSON of this schema: %s', 'Always answer in JSON. Schema: %s']) % dumps(schema)
            question = text
        else:  # the keys come from a grammar that the prompt does not show
            question = r.choice(['Extract the person: %s', 'Extract the data from this text as JSON: %s', 'Turn this into JSON: %s', 'JSON: %s', 'Who is this? Answer as JSON. %s', 'Parse this: %s', 'Extract what you know about the person: %s', '%s Answer as JSON.']) % text
        return [(question, answer)], system
    if kind < 0.7:
        what = r.choice(['person', 'city', 'animal', 'book', 'product', 'fruit', 'pet'])
        pool = {'person': lambda: person(r), 'city': lambda: {'name': r.choice(w.CITIES), 'country': r.choice(sorted(w.CAPITALS)), 'population': r.randrange(10, 9000) * 1000, 'rating': r.randrange(1, 6)},
                'animal': lambda: {'name': r.choice(w.ANIMALS), 'colour': r.choice(w.COLOURS), 'legs': r.choice([2, 4, 4, 6]), 'wild': r.random() < 0.5},
                'book': lambda: {'title': 'The %s %s' % (r.choice(w.ADJECTIVES).capitalize(), r.choice(w.NOUNS).capitalize()), 'author': '%s %s' % (r.choice(w.NAMES), r.choice(w.SURNAMES)), 'pages': r.randrange(80, 900), 'year': r.randrange(1900, 2026)},
                'product': lambda: {'name': '%s %s' % (r.choice(w.ADJECTIVES), r.choice(w.NOUNS)), 'price': r.randrange(1, 500), 'in_stock': r.random() < 0.5, 'colour': r.choice(w.COLOURS)},
                'fruit': lambda: {'name': r.choice(w.FRUITS), 'colour': r.choice(w.COLOURS[:6]), 'sweet': r.random() < 0.7}, 'pet': lambda: {'name': any_name(r), 'kind': r.choice(w.ANIMALS[:12]), 'age': r.randrange(1, 15)}}
        items = list(pool[what]().items())
        r.shuffle(items)
        data = dict(items[:r.randrange(1, len(items) + 1)])
        if r.random() < 0.5:
            question = r.choice(['Invent a %s. Answer as JSON with the keys %s.', 'Give me a JSON object for a %s with %s.', 'Describe a %s as JSON with the fields %s.', 'Make up a %s and write it as JSON: %s']) % (what, join(list(data)))
        else:
            question = r.choice(['Invent a %s as JSON.', 'Give me a %s as JSON.', 'Describe a %s as a JSON object.', 'Make up a %s. Answer with JSON.', 'Write a JSON object for a %s', 'Invent a %s.']) % what
        return [(question, dumps(data))], None
    if kind < 0.85:
        name = r.choice(sorted(w.KINDS))
        items = w.KINDS[name][:r.randrange(2, 6)]
        key = r.choice([name, 'items', 'list', 'result', 'values', 'things'])
        n = len(items)
        if r.random() < 0.4:
            return [(r.choice(['List %s %s as a JSON array.', 'Give me a JSON array of %s %s.']) % (spell(n), name), dumps(items))], None
        return [('%s %s %s as JSON with the key %s.' % (r.choice(['List', 'Give me', 'Name']), spell(n), name, key), dumps({key: items}))], None
    if kind < 0.93:
        a, b = r.randrange(0, 50), r.randrange(0, 50)
        key = r.choice(['result', 'sum', 'answer', 'value'])
        return [(r.choice(['What is %d plus %d? Answer as JSON with the key %s.', 'Compute %d + %d as JSON with the field %s.', 'Add %d and %d and reply with JSON: {"%s": number}']) % (a, b, key), dumps({key: a + b}))], None
    mood, text = r.choice([('positive', ['I love this %s', 'the %s is wonderful', 'what a great %s', 'I am very happy with the %s', 'the best %s ever']), ('negative', ['I hate this %s', 'the %s is terrible', 'what a bad %s', 'I am very unhappy with the %s', 'the %s is broken again', 'the worst %s ever'])])
    key = r.choice(['sentiment', 'mood', 'label', 'feeling'])
    return [(r.choice(['Is this positive or negative? Answer as JSON with the key {1}: {0}', 'Classify the text as positive or negative. JSON key: {1}. Text: {0}', 'What is the sentiment of "{0}"? Reply with JSON, key {1}.']).format(r.choice(text) % r.choice(w.NOUNS), key), dumps({key: mood}))], None


# ---- reading ----

def reading_talk(r, long):
    """A text with some facts inside, and questions about them: teaches to look back far."""
    facts = {}
    while len(facts) < r.randrange(2, 6):
        facts[any_name(r) if r.random() < 0.5 else 'the ' + r.choice(w.ADJECTIVES) + ' ' + r.choice(w.NOUNS)] = code(r)
    lines = ['%s %s %s.' % (r.choice(['The code of', 'The number of', 'The key of']), name, 'is ' + value) for name, value in facts.items()]
    filler = []
    size = r.randrange(400, 9000) if long else r.randrange(0, 400)
    while size > 0:
        part = r.choice(r.choice(DOCS)[1]) if DOCS and r.random() < 0.6 else ' '.join(sentence(r).capitalize() + '.' for _ in range(r.randrange(3, 10)))
        filler.append(part)
        size -= len(part)
    for line in lines:
        filler.insert(r.randrange(len(filler) + 1), line)
    text = '\n\n'.join(filler)
    turns = []
    for name in r.sample(sorted(facts), r.randrange(1, min(3, len(facts)) + 1)):
        question = r.choice(['What is the code of %s?', 'Which code has %s?', 'What was the number of %s?', 'Give me the key of %s.', 'What does the text say about %s?']) % name
        answer = '%s is %s.' % (('The code of ' + name), facts[name])
        turns.append((r.choice(['Read this text:\n\n%s\n\n%s', '%s\n\n%s', 'Here is a text. %s\n\nQuestion: %s', 'Text: %s\n\n%s']) % (text, question) if not turns else question, answer))
    if r.random() < 0.3:
        question, answer = fact_talk(r)[0]
        turns.append((question, answer))
    return turns


# ---- conversations ----

SYSTEMS = ['You are a helpful assistant.', 'You are kind.', 'Answer briefly.', 'You are a friendly assistant. Answer in plain English.', 'You are a careful assistant that helps people with their questions.', 'Be concise.',
           'You are an assistant on a web page. Help the user.', 'You are a helpful, honest assistant.', 'Answer every question as well as you can.', 'You are the demo model of hearth.', 'Help the user with hearth.', 'You are an expert. Think before you answer.']


def system_prompt(r):
    kind = r.random()
    if kind < 0.75:
        return r.choice(SYSTEMS), None
    if kind < 0.9:
        name = any_name(r)
        return r.choice(['Your name is %s.', 'You are %s, a helpful assistant.', 'You are called %s. Answer briefly.']) % name, name
    parts = r.choice(DOCS)[1] if DOCS else SYSTEMS
    start = r.randrange(len(parts))
    return r.choice(SYSTEMS) + '\n\n' + '\n\n'.join(parts[start:start + r.choice([2, 4, 8, 12, 40, 80])]), None


def extend(messages, turns):
    for question, answer in turns:
        messages.append({'role': 'user', 'content': question})
        messages.append({'role': 'assistant', 'content': answer})


def conversation(r):
    """(messages, tools)."""
    kind = r.random()
    if kind < 0.19:
        return tool_talk(r, lambda: r.choice([fact_talk, fact_talk, small_talk, sum_talk, world_talk, lambda r: refuse_talk(r, True)])(r))
    messages, memory, given = [], {}, None
    if r.random() < 0.35:
        system, given = system_prompt(r)
        messages.append({'role': 'system', 'content': system})
    if kind < 0.28:
        turns, system = json_talk(r)
        if system:
            messages = [{'role': 'system', 'content': system}]
        extend(messages, turns)
        for _ in range(r.choice([0, 0, 1])):
            if system is None:
                extend(messages, json_talk(r)[0] if r.random() < 0.5 else fact_talk(r))
        return messages, None
    if kind < 0.32:
        extend(messages, reading_talk(r, r.random() < 0.5))
        return messages, None
    if given and r.random() < 0.8:
        extend(messages, [(decorate(r, r.choice(['what is your name', 'who are you', "what's your name", 'how are you called', 'introduce yourself'])), 'My name is %s.' % given)])
    count = r.choice([1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8]) if r.random() < 0.97 else r.randrange(9, 30)
    ask = r.random() < 0.45  # a conversation in which things are told and asked for
    if ask:
        extend(messages, tell(r, memory, MEMORIES[0] if r.random() < 0.6 else None))
        count += 1
    for _ in range(count):
        x = r.random()
        if x < 0.02:
            extend(messages, unknown(r, memory))
        elif x < 0.05 and messages:
            extend(messages, meta_talk(r, messages))
        elif ask and x < 0.17:
            extend(messages, tell(r, memory))
        elif ask and x < 0.37 and memory:
            extend(messages, recall(r, memory))
        else:
            extend(messages, r.choices([fact_talk, small_talk, sum_talk, list_talk, world_talk, refuse_talk, story_talk], [46, 11, 11, 10, 7, 11, 4])[0](r))
    if ask and memory:
        extend(messages, recall(r, memory))
    return messages, None


def as_agent(r, messages):
    """Coding agents send pages of instructions first, and more of them around the user's words."""
    def pages(most):
        parts, at = r.choice(DOCS)[1], 0
        out = []
        for _ in range(int(1 + most * r.random() ** 2)):
            if at % 8 == 0:
                parts, at = r.choice(DOCS)[1], r.randrange(1000)
            out.append(parts[at % len(parts)])
            at += 1
        return '\n\n'.join(out)

    def reminder():
        return '<system-reminder>\n%s\n</system-reminder>\n' % pages(6)

    first = messages[0]['role'] == 'system'
    system = r.choice(['You are an agent that helps with software.', 'You are a coding agent.', 'You are an interactive tool for programmers.']) + '\n\n' + pages(AGENT_PAGES)
    out = [{'role': 'system', 'content': system + ('\n\n' + messages[0]['content'] if first else '')}]
    for i, m in enumerate(messages[first:]):
        text = m['content']
        if m['role'] == 'user' and (i == 0 or r.random() < 0.2):
            text = ''.join(reminder() for _ in range(r.randrange(3))) + text
            text += '\n' + reminder().rstrip() if r.random() < 0.15 else ''
        out.append(dict(m, content=text))
    return out


def document(r):
    name, parts = r.choice(DOCS)
    start = r.randrange(len(parts))
    return '\n\n'.join(parts[start:start + r.randrange(2, 30)])


# ---- layout ----

def render(messages, tools, think=False):
    """[(text, learned)] in the layout of the chat template."""
    out = []
    first = messages[0]['content'] if messages and messages[0]['role'] == 'system' else None
    if first is not None or tools:
        text = '<|im_start|>system\n' + (first or '')
        if tools:
            text += ('\n\n' if first is not None else '') + 'You can use these tools, given as JSON schemas, one a line:\n<tools>\n'
            text += ''.join(dumps(t) + '\n' for t in tools)
            text += '</tools>\nTo use one, write its name and arguments as JSON:\n<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>'
        out.append((text + '<|im_end|>\n', False))
    rest = messages[1:] if first is not None else messages
    for i, m in enumerate(rest):
        role = m['role']
        if role == 'assistant':
            out.append(('<|im_start|>assistant\n' + ('<think>\n\n</think>\n\n' if think and i == len(rest) - 1 else ''), False))
            out.append((m['content'] + '<|im_end|>', True))
            out.append(('\n', False))
        elif role == 'tool':
            text = '<|im_start|>user' if i == 0 or rest[i - 1]['role'] != 'tool' else ''
            text += '\n<tool_response>\n' + m['content'] + '\n</tool_response>'
            if i + 1 == len(rest) or rest[i + 1]['role'] != 'tool':
                text += '<|im_end|>\n'
            out.append((text, False))
        else:
            out.append(('<|im_start|>%s\n%s<|im_end|>\n' % (role, m['content']), False))
    return out


def sample(r):
    """One text of the training data, as parts."""
    if DOCS and r.random() < 0.015:
        return [(document(r) + '<|endoftext|>', True)]
    messages, tools = conversation(r)
    if DOCS and r.random() < 0.05:
        messages = as_agent(r, messages)
    return render(messages, tools, r.random() < 0.15) + [('<|endoftext|>', False)]


if __name__ == '__main__':
    import sys
    load_docs(sys.argv[1]) if len(sys.argv) > 1 else None
    r = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 10):
        print(''.join(text for text, _ in sample(r)))
