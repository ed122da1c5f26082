/** Reads tar files. */

export {
  type Attributes,
  bytesOf,
  paddedSize,
  showName,
  type TarEntry,
  TarError,
  type TarKind,
  tarBlockSize,
  textOfBytes,
} from './tar-entry.ts';
export { isTarStart, setTime } from './tar-header.ts';
export { type StoredEntry, sparseError, TarReader, type TarVisitor } from './tar-reader.ts';
