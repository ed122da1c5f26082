import { TarError, TarReader } from '../../archives/index.ts';
import { unreadable } from './layer-faults.ts';
import { isWhiteout } from './whiteout-entries.ts';

/** Looks for whiteouts in the bytes of a tar file. */
interface WhiteoutCheck {
  /** Reads the next part. Throws a `Fault` (400) for whiteouts that cannot be bounded to their image. */
  write(bytes: Buffer): void;
  /** True if one of the parts had an entry that deletes files of lower layers. */
  readonly hides: boolean;
}

/** @param name name of the layer in messages */
export function createWhiteoutCheck(name: string): WhiteoutCheck {
  let hides = false;
  const reader = new TarReader({
    entry(...entry) {
      hides = isWhiteout(...entry) || hides;
      return false;
    },
    content() {},
  });
  return {
    write(bytes) {
      try {
        reader.write(bytes);
      } catch (error) {
        throw error instanceof TarError ? unreadable(name, error) : error;
      }
    },
    get hides() {
      return hides;
    },
  };
}
