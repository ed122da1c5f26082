/** Content and rows of a site, opened by its settings. */

export {
  isDirectory,
  isSqlite,
  localContent,
  type OpenedContent,
  openContentReader,
  openForMove,
  openNamedObjects,
  openSiteContent,
  openSiteRows,
  type RowsPlace,
} from './site-data.ts';
