/** Entries of an uploaded build context, and their list. */

export {
  type ContextEntry,
  contextTypes,
  readEntries,
  tarEntryOf,
  writeEntries,
} from './entry-list.ts';
