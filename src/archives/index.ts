/** Reads tar files. */

export {
  type Attributes,
  attributePrefix,
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
export {
  type StoredEntry,
  sparseError,
  TarReader,
  type TarVisitor,
  type WholeHeader,
} from './tar-reader.ts';
