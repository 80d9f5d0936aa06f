"""Words that the generator puts into its sentences."""


def split(text):
    return [word.strip() for word in text.replace('\n', ' ').split(',') if word.strip()]


NAMES = split('''Ada, Adam, Agnes, Ahmed, Aisha, Alan, Albert, Alex, Alice, Alma, Amir, Amy, Ana, Andrea, Anna, Anton,
Arthur, Asha, Astrid, Ben, Bella, Bianca, Bob, Boris, Bruno, Carla, Carlos, Carmen, Cara, Charlie, Chen, Chloe, Clara,
Claude, Colin, Dan, Dana, Daniel, David, Diana, Diego, Dora, Edgar, Ela, Elena, Eli, Elias, Ella, Emil, Emily, Emma, Eric,
Erika, Esther, Eva, Fatima, Felix, Fiona, Frank, Frida, Fritz, George, Gina, Grace, Greta, Hana, Hannah, Harry, Hassan,
Heidi, Helen, Henry, Hugo, Ida, Igor, Ines, Ingrid, Irene, Iris, Isaac, Ivan, Jack, Jakob, James, Jan, Jane, Jasmin, Jim,
Joan, Joe, John, Jonas, Josef, Julia, Jun, Karl, Kate, Kim, Klara, Kofi, Lara, Laura, Lea, Lena, Leo, Leon, Lily, Lina,
Linus, Lisa, Louis, Lucas, Lucy, Luis, Luna, Maria, Mario, Mark, Martha, Martin, Mary, Max, Maya, Mei, Mia, Michael, Mila,
Mina, Mohammed, Mona, Nadia, Nick, Nina, Noah, Nora, Olaf, Oliver, Olivia, Omar, Oscar, Otto, Pablo, Paul, Paula, Pedro,
Peter, Petra, Philip, Quinn, Rachel, Raj, Ravi, Rita, Robert, Robin, Rosa, Ruth, Sam, Samira, Sara, Simon, Sofia, Sophie,
Stefan, Stella, Sven, Tara, Theo, Thomas, Tim, Tina, Tom, Uma, Vera, Victor, Viola, Walter, Wanda, Wei, Will, Xavier, Yan,
Yara, Yuki, Yusuf, Zara, Zoe''')
SURNAMES = split('''Adams, Baker, Bauer, Brown, Carter, Chen, Clark, Cohen, Cook, Diaz, Evans, Fischer, Fox, Garcia, Gray,
Green, Hall, Harris, Hill, Hoffman, Jones, Kim, King, Klein, Kumar, Lang, Lee, Lopez, Meyer, Miller, Moore, Nakamura, Novak,
Park, Patel, Peters, Reed, Rossi, Sato, Schmidt, Shah, Silva, Singh, Smith, Stone, Taylor, Turner, Vogel, Walker, Weber,
White, Wilson, Wolf, Wood, Wright, Young''')
CAPITALS = dict(pair.split(':') for pair in split('''France:Paris, Germany:Berlin, Italy:Rome, Spain:Madrid, Portugal:Lisbon,
Austria:Vienna, Switzerland:Bern, Poland:Warsaw, Norway:Oslo, Sweden:Stockholm, Finland:Helsinki, Denmark:Copenhagen,
Iceland:Reykjavik, Ireland:Dublin, England:London, Scotland:Edinburgh, Belgium:Brussels, Greece:Athens, Turkey:Ankara,
Hungary:Budapest, Romania:Bucharest, Bulgaria:Sofia, Croatia:Zagreb, Serbia:Belgrade, Ukraine:Kyiv, Russia:Moscow,
Japan:Tokyo, China:Beijing, India:New Delhi, Nepal:Kathmandu, Thailand:Bangkok, Vietnam:Hanoi, Indonesia:Jakarta,
Australia:Canberra, New Zealand:Wellington, Canada:Ottawa, Mexico:Mexico City, Cuba:Havana, Brazil:Brasilia,
Argentina:Buenos Aires, Chile:Santiago, Peru:Lima, Colombia:Bogota, Egypt:Cairo, Morocco:Rabat, Kenya:Nairobi,
Ghana:Accra, Nigeria:Abuja, Ethiopia:Addis Ababa, Israel:Jerusalem, Iran:Tehran, Iraq:Baghdad, South Korea:Seoul,
the Netherlands:Amsterdam, the Czech Republic:Prague, Estonia:Tallinn, Latvia:Riga, Lithuania:Vilnius'''))
CITIES = sorted(set(CAPITALS.values())) + split('''Barcelona, Boston, Chicago, Cologne, Dallas, Delhi, Denver, Dubai, Florence,
Frankfurt, Geneva, Hamburg, Hong Kong, Istanbul, Kyoto, Lyon, Manchester, Melbourne, Milan, Montreal, Mumbai, Munich, Naples,
New York, Osaka, Oxford, Porto, Salzburg, San Francisco, Seattle, Seville, Shanghai, Singapore, Sydney, Toronto, Valencia,
Vancouver, Venice, Zurich''')
COLOURS = split('red, blue, green, yellow, orange, purple, pink, brown, black, white, grey, turquoise, silver, gold, violet')
FRUITS = split('apple, banana, cherry, grape, lemon, lime, mango, orange, peach, pear, plum, strawberry, kiwi, melon, fig')
VEGETABLES = split('carrot, onion, potato, tomato, pepper, spinach, bean, pea, leek, cabbage, pumpkin, cucumber')
ANIMALS = split('''dog, cat, horse, cow, sheep, goat, pig, duck, hen, mouse, rabbit, fox, wolf, bear, lion, tiger, elephant,
monkey, owl, eagle, frog, snake, whale, dolphin, penguin, turtle, bee, ant, spider, parrot, hamster, deer, zebra''')
FOODS = split('''pizza, pasta, bread, cheese, soup, rice, salad, pancakes, sushi, curry, chocolate, ice cream, noodles, tacos,
apple pie, potatoes, fish, lentils, dumplings, waffles''')
DRINKS = split('tea, coffee, water, juice, milk, lemonade, cocoa')
JOBS = split('''teacher, nurse, doctor, baker, carpenter, farmer, engineer, programmer, pilot, painter, writer, cook, lawyer,
gardener, librarian, mechanic, musician, student, designer, photographer, plumber, journalist, scientist, tailor''')
HOBBIES = split('''reading, swimming, chess, hiking, painting, gardening, cooking, cycling, running, dancing, fishing, knitting,
photography, singing, climbing, sailing, skiing, drawing, yoga, football, tennis, baking, juggling''')
INSTRUMENTS = split('piano, guitar, violin, flute, drums, cello, trumpet, harp, clarinet, accordion')
NOUNS = split('''house, tree, river, mountain, book, lamp, table, chair, window, door, garden, bridge, boat, train, car, bicycle,
road, school, market, castle, tower, island, lake, forest, field, cloud, star, moon, sun, stone, key, box, letter, clock, mirror,
candle, cup, plate, knife, spoon, hat, coat, shoe, ring, coin, rope, ladder, hammer, basket, bottle, blanket, pillow, kettle,
engine, wheel, rocket, robot, computer, phone, camera, radio, piano, drum, picture, story, song, game, ball, kite, puzzle, map,
ticket, flag, medal, village, city, kitchen, library, museum, theatre, hospital, factory, farm, beach, desert, valley, cave,
harbour, storm, snow, rain, wind, fire, shadow, dream, secret, idea, question, answer, number, word, page, line, report, invoice,
order, branch, ticket, user, account, file, folder, record, message, token, server, model, prompt, session, job, task, note,
event, meeting, project, team, budget, price, contract, product, shipment, sensor, device, alarm, timer, playlist, recipe''')
ADJECTIVES = split('''old, young, small, big, tall, red, blue, green, quiet, loud, bright, dark, warm, cold, happy, sad, clever,
brave, kind, funny, shy, strong, gentle, curious, tired, hungry, lazy, busy, proud, rich, poor, new, soft, heavy, light, round,
golden, silver, wooden, broken, hidden, lost, wild, friendly, strange, beautiful, tiny, huge, slow, fast''')
VERBS = split('''get, set, add, create, delete, remove, update, find, search, list, open, close, start, stop, send, read, write,
move, copy, rename, check, count, show, play, pause, book, cancel, order, track, convert, lock, unlock, print, save, load, merge,
share, schedule, export, import, rotate, measure, archive, restore, approve, reject, assign, ping, deploy, reserve''')
TOPICS = split('''volcanoes, black holes, dinosaurs, the Roman Empire, quantum physics, football, opera, the stock market, climate
change, ancient Egypt, chemistry, biology, astronomy, philosophy, politics, medicine, the moon landing, tax law, cooking, fashion,
movies, music, poetry, architecture, world history, geography, mathematics, economics, psychology, gardening, sports, cars,
airplanes, space travel, religion, art, photography, computer games, wine, coffee, cats, birds, insects, the ocean, glaciers,
earthquakes, robots, cryptography, databases, compilers, operating systems, machine learning, neural networks, JavaScript, Rust,
Haskell, Kubernetes, web design, electricity, magnets, trains, bridges, languages, Latin, French grammar, mythology, Shakespeare,
the French Revolution, the Middle Ages, vikings, pirates, knights, chess openings, poker, travel, hotels, insurance, marketing,
vitamins, sleep, dreams, the human heart, DNA, viruses, genetics, crystals, rivers, deserts, whales, bees, horses, dogs''')
OPPOSITES = dict(pair.split(':') for pair in split('''big:small, hot:cold, up:down, left:right, open:closed, fast:slow, old:new,
happy:sad, light:dark, long:short, early:late, rich:poor, strong:weak, high:low, full:empty, easy:difficult, loud:quiet,
near:far, wet:dry, hard:soft, good:bad, true:false, first:last, day:night, win:lose, buy:sell, begin:end, love:hate,
clean:dirty, thick:thin, young:old, inside:outside, always:never, before:after, yes:no'''))
PLURALS = dict(pair.split(':') for pair in split('''cat:cats, dog:dogs, mouse:mice, child:children, man:men, woman:women,
foot:feet, tooth:teeth, goose:geese, leaf:leaves, wolf:wolves, knife:knives, box:boxes, bus:buses, city:cities, baby:babies,
story:stories, sheep:sheep, fish:fish, person:people, potato:potatoes, hero:heroes, key:keys, day:days'''))
SOUNDS = dict(pair.split(':') for pair in split('''dog:woof, cat:meow, cow:moo, sheep:baa, duck:quack, pig:oink, horse:neigh,
owl:hoot, bee:buzz, snake:hiss, lion:roar, frog:croak, hen:cluck, mouse:squeak, wolf:howl'''))
DAYS = split('Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday')
MONTHS = split('''January, February, March, April, May, June, July, August, September, October, November, December''')
PLANETS = split('Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune')
SEASONS = split('spring, summer, autumn, winter')
NUMBERS = split('''zero, one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen,
sixteen, seventeen, eighteen, nineteen, twenty''')
KINDS = {'colours': COLOURS, 'colors': COLOURS, 'fruits': FRUITS, 'vegetables': VEGETABLES, 'animals': ANIMALS, 'foods': FOODS,
         'drinks': DRINKS, 'jobs': JOBS, 'hobbies': HOBBIES, 'instruments': INSTRUMENTS, 'names': NAMES, 'cities': CITIES,
         'countries': [c for c in CAPITALS if not c.startswith('the')], 'months': MONTHS, 'planets': PLANETS,
         'seasons': SEASONS, 'days': DAYS}
