import { createHash, createHmac } from 'node:crypto';
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
  readonly hasMetadata: boolean;
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

/** An answer that is not a page of an index, as the end of a sentence about the index. */
export class PageProblem extends Error {}

const maxFiles = 100_000;
const plainFileName = /^[A-Za-z0-9][A-Za-z0-9._+!-]{0,250}\.(?:whl|tar\.gz|zip)$/;

/**
 * Returns the page that the solver gets instead: JSON, whose files have addresses relative to the page, at this server. Leaves out
 * wheels without a SHA-256, and files of other systems. Throws {@link PageProblem} for an answer that is not a page of an index.
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
    const isUseful = !fileName.endsWith('.whl') || (sha256 !== undefined && isForLinux(fileName));
    if (isUseful && !byName.has(fileName)) byName.set(fileName, file);
  }
  const files = [...byName.values()].map(file => ({
    filename: file.fileName,
    url: `../../${sealedPath(sent, file)}`,
    hashes: file.sha256 === undefined ? {} : { sha256: file.sha256 },
    'requires-python': file.requiresPython,
    size: file.size,
    'upload-time': file.uploadTime,
    yanked: file.yanked,
    'core-metadata': file.hasMetadata,
  }));
  return Buffer.from(JSON.stringify({ meta: { 'api-version': '1.1' }, name: sent.project, files }));
}

function isForLinux(wheel: string): boolean {
  const platforms = wheel.slice(wheel.lastIndexOf('-') + 1);
  return /linux|^any\.whl$/.test(platforms);
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
      size: Number.isSafeInteger(item.size) ? (item.size as number) : undefined,
      requiresPython: textOf(item['requires-python']),
      uploadTime: textOf(item['upload-time']),
      yanked: item.yanked === true || typeof item.yanked === 'string' ? item.yanked : false,
      hasMetadata: metadata !== false && metadata !== null,
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
        hasMetadata: metadata !== undefined && metadata !== 'false',
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
  const sha256 = /^[0-9a-f]{64}$/.test(facts.sha256 ?? '') ? facts.sha256 : undefined;
  return [{ fileName, url, ...facts, sha256 }];
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

/** Returns the path of a file at this server. */
function sealedPath(
  { project, key }: Pick<SentPage, 'project' | 'key'>,
  { url, fileName }: Pick<ListedFile, 'url' | 'fileName'>,
): string {
  const seal = createHmac('sha256', key).update(`${project}\n${url}\n${fileName}`).digest('hex');
  const address = Buffer.from(url).toString('base64url');
  return `files/${project}/${seal.slice(0, 32)}/${address}/${encodeURIComponent(fileName)}`;
}

/** Returns the file of a path that {@link rewrittenPage} wrote with the key; undefined for other paths. */
export function publishedFile(
  path: string,
  key: Uint8Array,
): { project: string; url: string; fileName: string } | undefined {
  const [, project, encoded, name] =
    /\/files\/([a-z0-9-]{1,200})\/[0-9a-f]{32}\/([A-Za-z0-9_-]{1,8000})\/([^/]+)$/.exec(path) ?? [];
  if (project === undefined || encoded === undefined || name === undefined) return undefined;
  const url = Buffer.from(encoded, 'base64url').toString('utf8');
  const fileName = decoded(name);
  const isListed = path.endsWith(`/${sealedPath({ project, key }, { url, fileName })}`);
  return isListed ? { project, url, fileName } : undefined;
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
