/** Content and rows of a site, opened by its settings. */

export {
  isDirectory,
  localContent,
  type OpenedContent,
  openContentReader,
  openForMove,
  openNamedObjects,
  openSiteContent,
} from './site-content.ts';
export { isSqlite, openSiteRows, type RowsPlace } from './site-rows.ts';
