/** Entries of an uploaded build context, and their list. */

export { type ContextEntry, contextTypes, tarEntryOf } from './context-entry.ts';
export { readEntries, writeEntries } from './entry-list.ts';
