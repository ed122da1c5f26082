import { firstTime, layerTarHeader } from '../../installing/installed-tar.ts';

const mtime = firstTime;

/**
 * Returns the tar entry that removes an environment from the layers below. Source: OCI image specification, Whiteouts.
 *
 * @param prefix absolute path of the environment
 */
export function replacingTar(prefix: string): Buffer {
  const name = prefix.lastIndexOf('/') + 1;
  const path = `${prefix.slice(1, name)}.wh.${prefix.slice(name)}`;
  return layerTarHeader({ path, kind: 'file', mode: 0o644, mtime, size: 0, link: '' });
}
