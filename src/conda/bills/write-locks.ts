import { compareTexts, withoutSlashes } from '../../foundation/text.ts';
import { type Bill, type BilledPackage, type BilledWheel, linkOrder } from './bill.ts';

/**
 * Returns the explicit lock file: the URL of each package with its digest, the MD5 where the channel states it, since every
 * installer reads that. An image for several platforms has a part for each. Source: conda, Building identical conda environments.
 */
export function writeExplicitLock({ platforms }: Bill): string {
  return platforms
    .map(({ subdir, packages, wheels = [] }) => {
      const urls = linkOrder(packages).map(({ url, md5, sha256 }) => {
        if (md5 !== undefined) return `${url}#${md5}`;
        return sha256 === undefined ? url : `${url}#sha256:${sha256}`;
      });
      const pip = wheels.map(
        ({ name, url, sha256 }) =>
          `# pip ${name} @ ${url}${sha256 === undefined ? '' : `#sha256=${sha256}`}`,
      );
      return [`# platform: ${subdir}`, '@EXPLICIT', ...urls, ...pip, ''].join('\n');
    })
    .join('');
}

/** Returns the lock file of pixi, version 6, with the environment `default`. Source: pixi, The lock file. */
export function writePixiLock({ channels, platforms }: Bill): string {
  const listed = new Map<string, BilledPackage>();
  for (const it of platforms.flatMap(({ packages }) => packages)) listed.set(it.url, it);
  const wheels = new Map<string, BilledWheel>();
  for (const it of platforms.flatMap(platform => platform.wheels ?? [])) wheels.set(it.url, it);
  return [
    'version: 6',
    'environments:',
    '  default:',
    '    channels:',
    ...channels.map(url => `    - url: ${yamlText(`${withoutSlashes(url)}/`)}`),
    ...(wheels.size === 0 ? [] : ['    indexes:', '    - https://pypi.org/simple']),
    '    packages:',
    ...platforms.flatMap(({ subdir, packages, wheels = [] }) => [
      `      ${subdir}:${packages.length === 0 ? ' []' : ''}`,
      ...sortedUrls(packages).map(url => `      - conda: ${yamlText(url)}`),
      ...sortedUrls(wheels).map(url => `      - pypi: ${yamlText(pixiAddress(url))}`),
    ]),
    `packages:${listed.size === 0 ? ' []' : ''}`,
    ...sortedUrls([...listed.values()]).flatMap(url => entryOf(listed.get(url) as BilledPackage)),
    ...sortedUrls([...wheels.values()]).flatMap(url => wheelEntry(wheels.get(url) as BilledWheel)),
    '',
  ].join('\n');
}

function sortedUrls(packages: readonly { readonly url: string }[]): readonly string[] {
  return packages.map(({ url }) => url).sort(compareTexts);
}

function wheelEntry(it: BilledWheel): readonly string[] {
  return [
    `- pypi: ${yamlText(pixiAddress(it.url))}`,
    ...yamlLine('  ', 'name', it.name),
    ...yamlLine('  ', 'version', it.version),
    ...yamlLine('  ', 'sha256', it.sha256),
    ...yamlList('  ', 'requires_dist', it.requires),
    ...yamlLine('  ', 'requires_python', it.requiresPython),
  ];
}

/** Returns the address of a package of a repository as pixi writes it: `git+https://host/path?rev=0123...#0123...`. */
function pixiAddress(url: string): string {
  const [, place, id, folder] =
    /^(git\+[^#@]+)@([0-9a-f]{40})(?:#subdirectory=(.*))?$/.exec(url) ?? [];
  if (place === undefined) return url;
  return `${place}?${folder === undefined ? '' : `subdirectory=${folder}&`}rev=${id}#${id}`;
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

const plainYaml = /^(?:https?:\/\/)?[A-Za-z_][A-Za-z0-9_./+-]*$/;
// Words that YAML 1.1 or 1.2 reads as something other than a text.
const yamlWords = new Set([
  'y',
  'n',
  'yes',
  'no',
  'on',
  'off',
  'true',
  'false',
  'null',
  'nan',
  'inf',
]);

/**
 * Returns a text as a YAML value on one line: as it is where every parser reads it as a text, otherwise in quotes. The
 * text has no control characters.
 */
export function yamlText(text: string): string {
  return plainYaml.test(text) && !yamlWords.has(text.toLowerCase()) ? text : JSON.stringify(text);
}

/** Returns the line of a member of a mapping; nothing for a value that is undefined. */
export function yamlLine(
  indent: string,
  name: string,
  value: string | number | undefined,
): readonly string[] {
  if (value === undefined) return [];
  return [`${indent}${name}: ${typeof value === 'number' ? value : yamlText(value)}`];
}

/** Returns the lines of a list of texts in a mapping; nothing for an empty list. */
function yamlList(indent: string, name: string, values: readonly string[]): readonly string[] {
  if (values.length === 0) return [];
  return [`${indent}${name}:`, ...values.map(value => `${indent}- ${yamlText(value)}`)];
}
