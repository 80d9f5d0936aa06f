/*
 * tools.js: example tools for the chat, and what they return. The page runs nothing: a result is a proposal that one can change.
 */

const tool = (name, description, properties) => ({
    type: 'function',
    function: { name, description, parameters: { type: 'object', properties, required: Object.keys(properties) } },
});

const EXAMPLES = [
    tool('get_weather', 'The weather in a city.', { city: { type: 'string' } }),
    tool('get_time', 'The local time in a city.', { city: { type: 'string' } }),
    tool('set_timer', 'Start a timer.', { minutes: { type: 'integer' }, label: { type: 'string' } }),
];

export const exampleTools = JSON.stringify(EXAMPLES, null, 2);

const RESULTS = {
    get_weather: ({ city }) => ({ city, sky: 'sunny', temperature_c: 21 }),
    get_time: ({ city }) => ({ city, time: new Date().toTimeString().slice(0, 5) }),
    set_timer: ({ minutes, label }) => ({ started: true, minutes, label }),
};

/* A result to begin with; '' for a tool that the page does not know. */
export function proposedResult({ name, arguments: text }) {
    try {
        return Object.hasOwn(RESULTS, name) ? JSON.stringify(RESULTS[name](JSON.parse(text))) : '';
    } catch {
        return ''; /* arguments that are no JSON */
    }
}
