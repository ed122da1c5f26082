import { tarPadding, ustarHeader } from '../../../archives/tar-writer.ts';
import type { CondaEnvironmentFiles } from '../package-layers.ts';

/**
 * Returns the tar entries of `conda-meta/history`, by which conda, mamba and pixi recognise an environment. It lists the
 * packages and not the request: a request with the lock file of an image gives the same image.
 *
 * @param prefix absolute path of the environment
 */
export function historyTar(environment: CondaEnvironmentFiles, prefix: string): Buffer {
  const content = Buffer.from(historyOf(environment));
  const root = prefix.slice(1);
  const metadata = `${root}/conda-meta`;
  const directories = [root, metadata].map(path =>
    ustarHeader({ path, kind: 'directory', mode: 0o755 }),
  );
  const path = `${metadata}/history`;
  const size = content.length;
  return Buffer.concat([
    ...directories,
    ustarHeader({ path, kind: 'file', mode: 0o644, size }),
    content,
    tarPadding(size),
  ]);
}

/** Source: conda, conda/history.py. */
function historyOf({ packages }: CondaEnvironmentFiles): string {
  const added = packages.map(({ url }) => `+${url.replace(/\.(?:conda|tar\.bz2)$/, '')}`).sort();
  return ['==> 1980-01-01 00:00:00 <==', ...added, ''].join('\n');
}
