/** The shape of JSON, patterns that are taken from a text, reasons of unreadable files. */

export { whyUnreadable } from '../unreadable.ts';
export { type JsonShape, JsonShapeCheck, JsonShapeError, parseShaped } from './json-shape.ts';
export { takePatterns } from './take-pattern.ts';
