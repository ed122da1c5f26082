import type { CondaSource } from '../conda-source.ts';
import { isPackageUrl, parsePackage } from '../package-spec.ts';

/**
 * Returns the match specifications that the package manager solves with the channels of a source; empty where it installs
 * given packages only, and so reads no channel.
 */
export function solvedSpecs({ wanted, options: { basePackages } }: CondaSource): readonly string[] {
  switch (wanted.form) {
    case 'environment': {
      const specs = [...wanted.packages, ...basePackages].filter(spec => !isPackageUrl(spec));
      return wanted.pip.length > 0 ? [...specs, 'pip'] : specs;
    }
    case 'lock':
      return missingIn(wanted.urls, basePackages);
    case 'locks':
      return basePackages.filter(spec =>
        wanted.platforms.some(({ urls }) => missingIn(urls, [spec]).length > 0),
      );
    case 'lockUrl':
      return basePackages;
  }
}

/** Returns the base packages that a lock file does not list. */
export function missingIn(
  urls: readonly string[],
  basePackages: readonly string[],
): readonly string[] {
  return basePackages.filter(spec => {
    const name = parsePackage(spec)?.name;
    return name === undefined || !urls.some(url => packageOf(url) === name.toLowerCase());
  });
}

/** Returns the name in the URL of a package: `<name>-<version>-<build>.conda`. */
function packageOf(url: string): string {
  const file = url.replace(/[?#].*$/s, '').replace(/^.*\//s, '');
  return file.split('-').slice(0, -2).join('-').toLowerCase();
}
