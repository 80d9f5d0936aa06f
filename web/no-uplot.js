/* no-uplot.js: stands for uplot.js in a program that was built without it: there is nothing to draw with, and that is no error. */
export default null;
