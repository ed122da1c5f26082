import { createHash, createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import { type BuiltWheel, projectName } from '../wheel-file.ts';

/** A file that an index lists for a project. */
interface ListedFile {
  readonly fileName: string;
  /** http(s), without credentials, query and fragment. */
  readonly url: string;
  readonly sha256: string | undefined;
  readonly size: number | undefined;
  readonly requiresPython: string | undefined;
  readonly uploadTime: string | undefined;
  readonly yanked: boolean | string;
  /** The SHA-256 of the metadata beside it; true where the index states none. */
  readonly metadata: string | boolean;
}

export interface SentPage {
  readonly body: Uint8Array;
  readonly contentType: string;
  /** Address of the page: links are relative to it. */
  readonly url: string;
  readonly project: string;
  /** Seals the addresses of files: only those that a page lists are fetched. */
  readonly key: Uint8Array;
}

/** A response that is not a page of an index, as the end of a sentence about the index. */
export class PageProblem extends Error {}

const maxFiles = 100_000;
const plainFileName = /^[A-Za-z0-9][A-Za-z0-9._+!-]{0,250}\.(?:whl|tar\.gz|zip)$/;

/**
 * Returns the page that the solver gets instead: JSON, whose files have addresses relative to the page, at this server. Leaves out
 * wheels without a SHA-256, and those that no image can use. Throws {@link PageProblem} for a response that is not a page of an index.
 * Source: PyPA specifications, Simple repository API.
 */
export function rewrittenPage(sent: SentPage): Uint8Array {
  const isJson = /\bjson\b/i.test(sent.contentType);
  const listed = isJson ? filesInJson(sent) : filesInHtml(sent);
  if (listed.length > maxFiles) throw new PageProblem(`lists more than ${maxFiles} files`);
  const wheels = listed.filter(({ fileName }) => fileName.endsWith('.whl'));
  if (wheels.length > 0 && wheels.every(({ sha256 }) => sha256 === undefined)) {
    throw new PageProblem(`states no SHA-256 for the files of ${sent.project}`);
  }
  const byName = new Map<string, ListedFile>();
  for (const file of listed) {
    const { fileName, sha256 } = file;
    const isUseful = !fileName.endsWith('.whl') || (sha256 !== undefined && isForImages(fileName));
    if (isUseful && !byName.has(fileName)) byName.set(fileName, file);
  }
  for (const file of onlyOnesOfVersions(listed, byName.values())) byName.set(file.fileName, file);
  const key = createSecretKey(sent.key);
  const files = [...byName.values()].map(file => ({
    filename: file.fileName,
    url: `../../${sealedPath(sent.project, published(file), key)}`,
    hashes: file.sha256 === undefined ? {} : { sha256: file.sha256 },
    'requires-python': file.requiresPython,
    size: file.size,
    'upload-time': file.uploadTime,
    yanked: file.yanked || undefined,
    // Sluice reads those of a wheel without metadata beside it.
    'core-metadata': file.fileName.endsWith('.whl'),
  }));
  return Buffer.from(JSON.stringify({ meta: { 'api-version': '1.1' }, name: sent.project, files }));
}

const pythonTags = /(?:^|\.)(?:cp3|py3)/;
const platformTags = /(?:^|\.)(?:any|(?:many)?linux[a-z0-9_]*_(?:x86_64|aarch64))(?:\.|$)/;

/**
 * Returns one wheel of each version that has no file for images: the solver says what is wrong with it, and not that there is no such
 * version.
 */
function* onlyOnesOfVersions(
  listed: readonly ListedFile[],
  useful: Iterable<ListedFile>,
): Iterable<ListedFile> {
  const versions = new Set<string>();
  for (const { fileName } of useful) versions.add(versionIn(fileName));
  for (const file of listed) {
    const { fileName, sha256 } = file;
    if (sha256 === undefined || !isForLinux(fileName) || versions.has(versionIn(fileName)))
      continue;
    versions.add(versionIn(fileName));
    yield file;
  }
}

function isForLinux(wheel: string): boolean {
  return /linux|^any\.whl$/.test(wheel.slice(wheel.lastIndexOf('-') + 1));
}

function versionIn(fileName: string): string {
  const source = /-([^-]+)\.(?:tar\.gz|zip)$/.exec(fileName);
  return source?.[1] ?? fileName.split('-', 2)[1] ?? '';
}

/** Returns false for a wheel that no Python of an image can use: of other systems, machines, C libraries and interpreters. */
export function isForImages(wheel: string): boolean {
  const tags = wheel.slice(0, -'.whl'.length).split('-').slice(-3);
  return pythonTags.test(tags[0] ?? '') && platformTags.test(tags[2] ?? '');
}

function filesInJson({ body, url }: SentPage): ListedFile[] {
  let page: unknown;
  try {
    page = JSON.parse(Buffer.from(body).toString('utf8'));
  } catch {
    throw new PageProblem('answered JSON that cannot be read');
  }
  const list = (page as { files?: unknown } | null)?.files;
  if (!Array.isArray(list)) throw new PageProblem('answered JSON without a list of files');
  return list.flatMap((item: Record<string, unknown> | null) => {
    const address = addressOf(item?.url, url);
    if (item === null || typeof item !== 'object' || address === undefined) return [];
    const hashes = (item.hashes ?? {}) as Record<string, unknown>;
    const metadata = item['core-metadata'] ?? item['dist-info-metadata'] ?? false;
    return fileOf(item.filename, address, {
      sha256: textOf(hashes.sha256),
      size: sizeOf(item.size),
      requiresPython: textOf(item['requires-python']),
      uploadTime: textOf(item['upload-time']),
      yanked: item.yanked === true || typeof item.yanked === 'string' ? item.yanked : false,
      metadata: textOf((metadata as { sha256?: unknown } | null)?.sha256) ?? Boolean(metadata),
    });
  });
}

const anchor = /<a\s([^<>]{0,20000})>/gi;
const attribute = /([a-z-]{1,40})(?:\s*=\s*(?:"([^"]*)"|'([^']*)'))?/gi;

function filesInHtml({ body, url, project }: SentPage): ListedFile[] {
  const text = Buffer.from(body).toString('utf8');
  const found: ListedFile[] = [];
  for (const [, inside = ''] of text.matchAll(anchor)) {
    const given = new Map<string, string>();
    for (const [, name = '', double, single] of inside.matchAll(attribute)) {
      const key = name.toLowerCase();
      if (!given.has(key)) given.set(key, plainText(double ?? single ?? ''));
    }
    const href = given.get('href') ?? '';
    const address = addressOf(href, url);
    if (address === undefined) continue;
    const path = new URL(address).pathname;
    const metadata = given.get('data-core-metadata') ?? given.get('data-dist-info-metadata');
    const yanked = given.get('data-yanked');
    found.push(
      ...fileOf(decoded(path.slice(path.lastIndexOf('/') + 1)), address, {
        sha256: new URLSearchParams(new URL(href, url).hash.slice(1)).get('sha256') ?? undefined,
        size: undefined,
        requiresPython: given.get('data-requires-python'),
        uploadTime: undefined,
        yanked: yanked === undefined ? false : yanked || true,
        metadata: metadata !== 'false' && (metadata?.replace(/^sha256=/, '') ?? false),
      }),
    );
  }
  const isIndex = /<meta\s[^<>]{0,200}pypi:repository-version/i.test(text);
  if (found.length === 0 && !isIndex && !text.includes(`Links for ${project}`)) {
    throw new PageProblem('answered a page that is not a page of an index');
  }
  return found;
}

function fileOf(
  fileName: unknown,
  url: string,
  facts: Omit<ListedFile, 'fileName' | 'url'>,
): ListedFile[] {
  if (typeof fileName !== 'string' || !plainFileName.test(fileName)) return [];
  const { sha256, metadata } = facts;
  return [
    {
      fileName,
      url,
      ...facts,
      sha256: isSha256(sha256) ? sha256 : undefined,
      metadata: isSha256(metadata) ? metadata : metadata !== false,
    },
  ];
}

function isSha256(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value);
}

/** Leaves out the query: that of a signed address is a secret, and addresses are kept in lock files. */
function addressOf(href: unknown, base: string): string | undefined {
  if (typeof href !== 'string' || href.length > 4000 || !URL.canParse(href, base)) return undefined;
  const url = new URL(href, base);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return undefined;
  url.username = '';
  url.password = '';
  url.search = '';
  url.hash = '';
  return url.href;
}

/** Some indexes list sizes that are none. */
function sizeOf(value: unknown): number | undefined {
  return Number.isInteger(value) && Number(value) > 0 && Number(value) < 1e15
    ? Number(value)
    : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= 1000 ? value : undefined;
}

const entities: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"' };

function plainText(text: string): string {
  return text.replace(/&(lt|gt|amp|quot);/g, (_, name: string) => entities[name] ?? '');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns a page of {@link rewrittenPage} that promises no metadata beside its files. */
export function withoutMetadata(page: Uint8Array): Uint8Array {
  const text = Buffer.from(page.buffer, page.byteOffset, page.length).toString('latin1');
  return Buffer.from(text.replaceAll('"core-metadata":true', '"core-metadata":false'), 'latin1');
}

/** Returns the file as {@link publishedFile} returns it. */
function published({ url, fileName, sha256, size, metadata }: ListedFile): PublishedFile {
  const isStated = typeof metadata === 'string';
  const place = isStated ? 'stated' : metadata ? 'beside' : 'inside';
  return { url, fileName, size, metadata: place, digest: isStated ? metadata : (sha256 ?? '') };
}

/**
 * Returns the path of a file at this server. It has the folder of an address that ends with the name of the file, which follows. Any
 * other address has `#` at its end: it can end with a slash, too.
 */
function sealedPath(project: string, file: PublishedFile, key: KeyObject): string {
  const { url, fileName, metadata, digest, size } = file;
  const facts = [metadata[0], Buffer.from(digest, 'hex').toString('base64url'), size].join('.');
  const sealed = `${project}\n${url}\n${fileName}\n${facts}`;
  const seal = createHmac('sha256', key).update(sealed).digest('hex').slice(0, 32);
  const name = encodeURIComponent(fileName);
  const place = url.endsWith(`/${name}`) ? url.slice(0, -name.length) : `${url}#`;
  const address = Buffer.from(place).toString('base64url');
  return `files/${project}/${seal}.${facts}/${address}/${name}`;
}

/** A file of a page. */
export interface PublishedFile {
  readonly url: string;
  readonly fileName: string;
  /** Bytes, as far as the index states them. */
  readonly size: number | undefined;
  /** Where its metadata are: in a file beside it with a stated digest or without one, or in it. */
  readonly metadata: 'stated' | 'beside' | 'inside';
  /** The SHA-256 of the metadata where it is stated, and otherwise of the file, in hexadecimal digits; empty for neither. */
  readonly digest: string;
}

const pathOfFile =
  /\/files\/([a-z0-9-]{1,200})\/[0-9a-f]{32}\.([sbi])\.([A-Za-z0-9_-]{43})?\.(\d{1,15})?\/([A-Za-z0-9_-]{1,8000})\/([^/]+)$/;
const placesOfMetadata = { s: 'stated', b: 'beside', i: 'inside' } as const;

/** Returns the file of a path that {@link rewrittenPage} wrote with the key, and its project; undefined for other paths. */
export function publishedFile(
  path: string,
  key: KeyObject,
): { project: string; file: PublishedFile } | undefined {
  const [, project, place, digest = '', size, encoded, name] = pathOfFile.exec(path) ?? [];
  if (project === undefined || encoded === undefined || name === undefined) return undefined;
  const address = Buffer.from(encoded, 'base64url').toString('utf8');
  const file = {
    url: address.endsWith('/') ? `${address}${name}` : address.replace(/#$/, ''),
    fileName: decoded(name),
    size: size === undefined ? undefined : Number(size),
    metadata: placesOfMetadata[place as keyof typeof placesOfMetadata],
    digest: Buffer.from(digest, 'base64url').toString('hex'),
  };
  return path.endsWith(`/${sealedPath(project, file, key)}`) ? { project, file } : undefined;
}

/** Returns the page of a project that is only there in one version, such as one of Conda: a wheel without content. */
export function installedPage(project: string, version: string): Uint8Array {
  const fileName = `${projectName(project).replaceAll('-', '_')}-${version}-py3-none-any.whl`;
  // Without a hash, the solver fetches the file to compute it.
  const sha256 = createHash('sha256').update(fileName).digest('hex');
  return pageOfOne('installed', { name: project, version, fileName, sha256 });
}

/** Returns the page of a project that has one version: a wheel that was built here. */
export function givenPage(wheel: BuiltWheel): Uint8Array {
  return pageOfOne('built', wheel);
}

function pageOfOne(
  folder: string,
  { name, version, fileName, sha256 }: Pick<BuiltWheel, 'name' | 'version' | 'fileName' | 'sha256'>,
): Uint8Array {
  const files = [
    {
      filename: fileName,
      url: `../../${folder}/${encodeURIComponent(version)}/${encodeURIComponent(fileName)}`,
      hashes: { sha256 },
      'core-metadata': true,
      yanked: false,
    },
  ];
  return Buffer.from(JSON.stringify({ meta: { 'api-version': '1.1' }, name, files }));
}
