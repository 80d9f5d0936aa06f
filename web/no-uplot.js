/* no-uplot.js: replaces uplot.js in a program that was built without it. The missing charts are not an error. */
export default null;
