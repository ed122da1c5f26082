import type { CondaPackage } from '../conda-package.ts';

/** What layers hold, as people read it in the history of an image. */
export const layerTitles = {
  history: 'conda: list of the packages',
  replaced: 'conda: removes the environment below',
};

/** Characters of the packages of one layer: a configuration is read with each pull. */
const mostChars = 1000;

/** Returns what a layer of packages holds: `conda: samtools 1.20 (bioconda)`. */
export function titleOfLayer(kind: 'conda' | 'pypi', packages: readonly string[]): string {
  const shown: string[] = [];
  let chars = 0;
  for (const title of packages) {
    chars += title.length + 2;
    if (chars > mostChars && shown.length > 0) break;
    shown.push(title);
  }
  const left = packages.length - shown.length;
  return `${kind}: ${shown.join(', ')}${left === 0 ? '' : ` and ${left} more`}`;
}

const channelName = /^[\w.-]{1,80}$/;

/** Returns a package as its name, its version and the name of its channel, which its address ends with. */
export function titleOfPackage({
  name,
  version,
  url,
}: Pick<CondaPackage, 'name' | 'version' | 'url'>): string {
  const [before = '', channel = ''] = url.split('/').slice(-4, -2);
  // A token of anaconda.org stands in an address as /t/<token>/.
  const isShown = before !== 't' && channelName.test(channel);
  return isShown ? `${name} ${version} (${channel})` : `${name} ${version}`;
}
