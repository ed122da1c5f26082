import { type TarEntry, TarError, TarReader } from '../../archives/index.ts';
import { Fault } from '../../foundation/fault.ts';

/**
 * Returns a function that reads the bytes of a tar file, in parts. It throws a {@link Fault} (400) at the first entry that
 * deletes files of lower layers: on top of another image, it would delete the files of that one.
 *
 * @param name name of the layer in messages
 */
export function createWhiteoutCheck(name: string): (bytes: Buffer) => void {
  const reader = new TarReader({ entry: entry => refuseWhiteout(entry, name), content() {} });
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

/** Source: OCI image specification layer.md, "Whiteouts". */
function refuseWhiteout({ path }: TarEntry, name: string): false {
  if (!path.split('/').some(part => part.startsWith('.wh.'))) return false;
  throw new Fault(
    'bad-request',
    `${name} deletes files of the layers below it (${JSON.stringify(path.slice(0, 200))}), and would delete those of the requested image: use COPY --from=IMAGE in a 'containerFile', or include an image whose layers only add files`,
    { phase: 'layer' },
  );
}
