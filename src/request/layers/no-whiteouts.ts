import { type StoredEntry, type TarEntry, TarError, TarReader } from '../../archives/index.ts';
import { Fault } from '../../foundation/fault.ts';

/**
 * Returns a function that reads the bytes of a tar file, in parts. It throws a {@link Fault} (400) at the first entry that
 * deletes files of lower layers: on top of another image, it would delete the files of that one.
 *
 * @param name name of the layer in messages
 */
export function createWhiteoutCheck(name: string): (bytes: Buffer) => void {
  const reader = new TarReader({
    entry: (...entry) => refuseWhiteout(name, ...entry),
    content() {},
  });
  return bytes => {
    try {
      reader.write(bytes);
    } catch (error) {
      if (!(error instanceof TarError)) throw error;
      throw new Fault('bad-request', `${name} cannot be read: ${error.message}`, {
        phase: 'layer',
        cause: error,
      });
    }
  };
}

function refuseWhiteout(name: string, entry: TarEntry, stored: StoredEntry): false {
  if (!isWhiteout(entry) && !stored.hasOverlayAttributes) return false;
  throw new Fault(
    'bad-request',
    `${name} deletes files of the layers below it (${JSON.stringify(entry.path.slice(-200))}), and would delete those of the requested image: use COPY --from=IMAGE in a 'containerFile', or include an image whose layers only add files`,
    { phase: 'layer' },
  );
}

/** Source: OCI image specification layer.md, "Whiteouts"; Linux, Documentation/filesystems/overlayfs.rst. */
function isWhiteout({ path, kind, device }: TarEntry): boolean {
  const isOfOverlay = kind === 'character-device' && device?.major === 0 && device.minor === 0;
  return isOfOverlay || path.split('/').some(part => part.startsWith('.wh.'));
}
