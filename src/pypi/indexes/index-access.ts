import {
  type ChannelAccess,
  ChannelFault,
  type ChannelSettings,
  createChannelAccess,
  hostsOfChannels,
} from '../../conda/index.ts';
import { Fault } from '../../foundation/fault.ts';
import type { Transport, UpstreamResponse } from '../../upstream/index.ts';

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

interface IndexAccessDeps {
  readonly indexes: readonly IndexSettings[];
  /** May connect to the hosts of indexes that are listed with `allowPrivateAddress`. */
  readonly transport: Transport;
  /** Connects to public addresses only. */
  readonly guarded: Transport;
  readonly retry: Parameters<typeof createChannelAccess>[0]['retry'];
}

export function createIndexAccess({ indexes, ...deps }: IndexAccessDeps): IndexAccess {
  const channels = [...indexes, ...originsOf(indexes)];
  const access = createChannelAccess({ channels, ...deps });
  return {
    async open(url, options) {
      try {
        return await access.open(url, options);
      } catch (error) {
        throw options.signal.aborted ? error : asIndexFault(error, url);
      }
    },
  };
}

/**
 * Returns settings for the files of an index that are beside its pages, such as `/packages` beside `/simple`. Where several indexes
 * share an origin, its files belong to none of them.
 */
function originsOf(indexes: readonly IndexSettings[]): IndexSettings[] {
  const origins = indexes.map(({ url }) => new URL(url).origin);
  return indexes.flatMap((settings, at) => {
    const origin = origins[at] as string;
    const isShared = origins.filter(other => other === origin).length > 1;
    return isShared || settings.url === origin
      ? []
      : [{ ...settings, keys: [], url: origin, mirrors: [] }];
  });
}

/** Returns the failure in words about an index instead of a channel. */
function asIndexFault(error: unknown, url: string): unknown {
  if (!(error instanceof Fault)) return error;
  const { host, pathname } = new URL(url);
  if (!(error instanceof ChannelFault)) return error.retold(inWordsOfIndexes(error.message));
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
    `The index of Python packages at ${host} answered ${responseStatus} for ${pathname}${remedy}`,
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
