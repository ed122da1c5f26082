/** Reads tar files. */

export {
  type Attributes,
  bytesOf,
  isTarStart,
  paddedSize,
  setTime,
  showName,
  type TarEntry,
  TarError,
  type TarKind,
  tarBlockSize,
  textOfBytes,
} from './tar-entry.ts';
export { type StoredEntry, sparseError, TarReader, type TarVisitor } from './tar-reader.ts';
