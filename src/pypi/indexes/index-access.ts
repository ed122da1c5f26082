import {
  type ChannelAccess,
  ChannelFault,
  type ChannelSettings,
  createChannelAccess,
  hostsOfChannels,
} from '../../conda/index.ts';
import { Fault } from '../../foundation/fault.ts';
import {
  faultOfError,
  readAll,
  type Transport,
  type UpstreamResponse,
} from '../../upstream/index.ts';

/** The index of a request that names none. */
export const defaultIndex = 'https://pypi.org/simple';

/** The operator's settings for one index, or for a host that has its files: the same as those of a channel of Conda. */
export type IndexSettings = ChannelSettings;

/** Returns the hosts of indexes for the transport. */
export const hostsOfIndexes = hostsOfChannels;

/** Fetches pages and files of indexes with the mirrors, credentials and rules of their configuration. */
export interface IndexAccess {
  /**
   * Opens a page or file. Returns the response with its status 200, 206 or 304. Throws an {@link IndexFault} that names the
   * index, and a `Fault` (400) for a closed address.
   */
  open(url: string, options: Parameters<ChannelAccess['open']>[1]): Promise<UpstreamResponse>;
  /** Returns the settings for a page or file; undefined for one of no listed index. */
  settingsOf(url: string): IndexSettings | undefined;
}

/** A page or file that could not be fetched. */
export class IndexFault extends Fault {
  /** The status that the index answered; undefined when it did not answer. */
  readonly responseStatus: number | undefined;

  constructor(message: string, responseStatus: number | undefined, cause?: unknown) {
    const isRefused = responseStatus !== undefined && responseStatus >= 400 && responseStatus < 500;
    super(isRefused ? 'bad-request' : 'upstream-unusable', message, { phase: 'upstream', cause });
    this.responseStatus = responseStatus;
  }
}

/** Returns how sentences about the index of a page or file begin. */
export function subjectOf(url: string): string {
  return `The index of Python packages at ${new URL(url).host}`;
}

interface WholeBody {
  readonly maxBytes: number;
  /** What it is, for messages. */
  readonly what: string;
  readonly url: string;
  readonly signal: AbortSignal;
}

/** Returns all of a body. Throws an {@link IndexFault} where it breaks off, and another `Fault` for one with more bytes. */
export async function readBody(
  { body }: Pick<UpstreamResponse, 'body'>,
  { maxBytes, what, url, signal }: WholeBody,
): Promise<Buffer> {
  try {
    return await readAll(body, maxBytes, what);
  } catch (error) {
    if (error instanceof Fault || signal.aborted) throw error;
    const { host } = new URL(url);
    const { message } = faultOfError(error, { registry: host }, { what }, subjectOf(url));
    throw new IndexFault(message, undefined, error);
  }
}

interface IndexAccessDeps {
  readonly indexes: readonly IndexSettings[];
  /** May connect to the hosts of indexes that are listed with `allowPrivateAddress`. */
  readonly transport: Transport;
  /** Connects to public addresses only. */
  readonly guarded: Transport;
  readonly retry: Parameters<typeof createChannelAccess>[0]['retry'];
}

export function createIndexAccess({ indexes, ...deps }: IndexAccessDeps): IndexAccess {
  const channels = withFiles(indexes);
  const access = createChannelAccess({ channels, ...deps });
  return {
    settingsOf: url => settingsAbove(channels, url)?.settings,
    async open(url, options) {
      requireInFolder(url);
      try {
        return await access.open(url, options);
      } catch (error) {
        throw options.signal.aborted ? error : asIndexFault(error, url);
      }
    },
  };
}

/** Returns the settings with the longest base above an address, and the rest of the address; undefined for one below no base. */
export function settingsAbove(
  indexes: readonly IndexSettings[],
  address: string,
): { readonly settings: IndexSettings; readonly rest: string } | undefined {
  const found = indexes.flatMap(settings =>
    [settings.url, ...settings.keys]
      .filter(base => address.startsWith(`${base}/`))
      .map(base => ({ settings, base, rest: address.slice(base.length) })),
  );
  return found.toSorted((one, other) => other.base.length - one.base.length)[0];
}

/**
 * Returns settings with those for the files of each index at `.../simple` that are beside its pages: in the folder above it, and directly
 * below a host in `/packages` and `/files`. All else of the host is none of the index, since pages and callers name addresses. Where
 * several indexes share such a folder, its files belong to none of them.
 */
export function withFiles(indexes: readonly IndexSettings[]): readonly IndexSettings[] {
  const beside = indexes.flatMap(settings =>
    foldersBeside(settings.url).map(url => ({ ...settings, keys: [], url, mirrors: [] })),
  );
  const urls = beside.map(({ url }) => url);
  return [...indexes, ...beside.filter(({ url }) => urls.indexOf(url) === urls.lastIndexOf(url))];
}

function foldersBeside(index: string): readonly string[] {
  const { origin, pathname } = new URL(index);
  // `+simple` is that of devpi.
  const above = /^(.*)\/\+?simple$/.exec(pathname)?.[1];
  if (above === undefined) return [];
  return above === '' ? [`${origin}/packages`, `${origin}/files`] : [`${origin}${above}`];
}

/** Throws a `Fault` (400) for an address that a server may read as one in another folder. */
function requireInFolder(url: string): void {
  const { host, pathname } = new URL(url);
  // Some servers leave out what follows a semicolon.
  if (!/[%;]/.test(pathname) || !/(?:^|[/\\])\.\.(?:[/\\;]|$)/.test(decoded(pathname))) return;
  throw new Fault(
    'bad-request',
    `The address of a file at ${host} leads out of its folder: its path has '..'`,
    { phase: 'upstream' },
  );
}

/** Decodes what separates names, also in a path with other characters that cannot be decoded. */
function decoded(path: string): string {
  return path.replace(/%(?:2e|2f|5c|3b)/gi, decodeURIComponent);
}

/** Returns the failure in words about an index instead of a channel. */
function asIndexFault(error: unknown, url: string): unknown {
  if (!(error instanceof Fault)) return error;
  if (!(error instanceof ChannelFault)) return error.withMessage(inWordsOfIndexes(error.message));
  const { responseStatus } = error;
  if (responseStatus === undefined) {
    return new IndexFault(inWordsOfIndexes(error.message), undefined, error);
  }
  const remedy =
    responseStatus === 401 || responseStatus === 403
      ? ': the operator can give it credentials with pypi in the configuration'
      : responseStatus === 404
        ? ': check the name of the package'
        : ': try later';
  return new IndexFault(
    `${subjectOf(url)} answered ${responseStatus} for ${new URL(url).pathname}${remedy}`,
    responseStatus,
    error,
  );
}

function inWordsOfIndexes(message: string): string {
  return message
    .replaceAll('The channel ', 'The index of Python packages ')
    .replaceAll('channels and allowPrivateAddress', 'pypi and allowPrivateAddress')
    .replaceAll('channels.*.', 'pypi.*.');
}
