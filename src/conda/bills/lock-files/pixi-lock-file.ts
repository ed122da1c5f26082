import { compareTexts } from '../../../foundation/text/text-order.ts';
import { withoutSlashes } from '../../../foundation/text/trim.ts';
import type { Bill, BilledPackage } from '../bill.ts';
import { yamlLine, yamlList, yamlText } from './yaml-text.ts';

/** Returns the lock file of pixi, version 6, with the environment `default`. Source: pixi, The lock file. */
export function writePixiLock({ channels, platforms }: Bill): string {
  const listed = new Map<string, BilledPackage>();
  for (const it of platforms.flatMap(({ packages }) => packages)) listed.set(it.url, it);
  return [
    'version: 6',
    'environments:',
    '  default:',
    '    channels:',
    ...channels.map(url => `    - url: ${yamlText(`${withoutSlashes(url)}/`)}`),
    '    packages:',
    ...platforms.flatMap(({ subdir, packages }) => [
      `      ${subdir}:${packages.length === 0 ? ' []' : ''}`,
      ...sortedUrls(packages).map(url => `      - conda: ${yamlText(url)}`),
    ]),
    `packages:${listed.size === 0 ? ' []' : ''}`,
    ...sortedUrls([...listed.values()]).flatMap(url => entryOf(listed.get(url) as BilledPackage)),
    '',
  ].join('\n');
}

function sortedUrls(packages: readonly BilledPackage[]): readonly string[] {
  return packages.map(({ url }) => url).sort(compareTexts);
}

function entryOf(it: BilledPackage): readonly string[] {
  return [
    `- conda: ${yamlText(it.url)}`,
    ...yamlLine('  ', 'name', it.name),
    ...yamlLine('  ', 'version', it.version),
    ...yamlLine('  ', 'build', it.build),
    ...yamlLine('  ', 'build_number', it.buildNumber),
    ...yamlLine('  ', 'subdir', it.subdir),
    ...yamlLine('  ', 'noarch', it.noarch),
    ...yamlLine('  ', 'sha256', it.sha256),
    ...yamlLine('  ', 'md5', it.md5),
    ...yamlList('  ', 'depends', it.depends),
    ...yamlList('  ', 'constrains', it.constrains),
    ...yamlLine('  ', 'track_features', it.trackFeatures),
    ...yamlLine('  ', 'license', it.license),
    ...yamlLine('  ', 'license_family', it.licenseFamily),
    ...yamlLine('  ', 'size', it.size),
    ...yamlLine('  ', 'timestamp', it.timestamp),
    ...yamlLine('  ', 'python_site_packages_path', it.sitePackages),
  ];
}
