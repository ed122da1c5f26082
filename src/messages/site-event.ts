import { randomUUID } from 'node:crypto';
import { boundedCache } from '../foundation/bounded-cache.ts';
import type { Digest } from '../oci/digest.ts';
import { usersFolder } from '../oci/naming.ts';
import type { NewMessage } from '../storage/rows/index.ts';

/** The kinds of events, as settings name them. A CloudEvent has the type `sluice.<kind>`. */
export const eventKinds = ['build.ended', 'mirror.ended', 'image.pushed', 'image.deleted'] as const;
export type EventKind = (typeof eventKinds)[number];

/** The end of a build, or of a copy of an image. */
export interface BuildEnded {
  readonly kind: 'build.ended' | 'mirror.ended';
  readonly id: string;
  /** Whose it is: the number of a user at a platform, empty for anonymous callers. */
  readonly owner: string;
  /** The image, as clients pull it. */
  readonly image: string;
  readonly succeeded: boolean;
  readonly digest?: Digest | undefined;
  /** Why it failed. */
  readonly reason?: string | undefined;
  /** Times in ms since the epoch. */
  readonly createdAt: number;
  readonly endedAt: number;
  /** Where a caller who asked for it gets an e-mail; undefined for a caller who did not. */
  readonly mailTo?: string | undefined;
}

/** A push to a hosted repository. */
interface ImagePushed {
  readonly kind: 'image.pushed';
  readonly repository: string;
  readonly digest: Digest;
  readonly mediaType: string;
  /** Bytes of the manifest. */
  readonly size: number;
  readonly tags: readonly string[];
}

/** A deletion from a hosted repository: of a tag, or of a manifest with its tags. */
interface ImageDeleted {
  readonly kind: 'image.deleted';
  readonly repository: string;
  readonly digest?: Digest | undefined;
  readonly tag?: string | undefined;
}

export type SiteEvent = BuildEnded | ImagePushed | ImageDeleted;

/** Returns the messages about an event, one for each receiver that wants it. */
export type Announce = (event: SiteEvent) => readonly NewMessage[];

/** Name of the receiver that sends e-mails. No webhook can have it. */
export const mailTarget = 'e-mail';

const longestAddress = 254;
// One plain address: what could be a second one, a name, a header, or an option or a route of a mail server is none.
const addressPattern = /^[a-z0-9_+][\w.+'=&~^*#?$/-]*@[a-z0-9-]+(?:\.[a-z0-9-]+)+$/i;

/** Returns true for a single e-mail address without a name. */
export function isMailAddress(text: string): boolean {
  return text.length <= longestAddress && !text.includes('..') && addressPattern.test(text);
}

/** A receiver, and what it wants. */
export interface Receiver {
  readonly name: string;
  readonly events: readonly EventKind[];
}

export interface AnnounceOptions {
  readonly webhooks: readonly Receiver[];
  /** How long a build must have taken for an e-mail (ms); undefined without e-mail. */
  readonly mailAfterMs: number | undefined;
  /** Returns the address of the page of a build. */
  readonly pageOf: (buildId: string) => string;
  /** Host in the names of hosted images. */
  readonly host: string;
  /** Returns the time in ms since the epoch. */
  readonly now?: () => number;
}

// A tag has at most 128 characters, the name of a repository 255.
const longestSubject = 400;
const longestReason = 2000;
const longestSender = 255;
/** E-mails to one address, of each server. Somebody who starts thousands of builds has no use for as many e-mails. */
export const mailsPerDay = 100;
const mostAddresses = 10_000;
const dayMs = 86_400_000;

export function createAnnounce(options: AnnounceOptions): Announce {
  const { webhooks, mailAfterMs, now = Date.now } = options;
  const mails = boundedCache<string, number>(mostAddresses);
  /** Counts an e-mail; false when the address has had its number of this day. */
  const takesOne = (address: string): boolean => {
    const key = `${Math.floor(now() / dayMs)} ${address.toLowerCase()}`;
    const count = (mails.get(key) ?? 0) + 1;
    mails.set(key, count);
    return count <= mailsPerDay;
  };
  return siteEvent => {
    const { kind } = siteEvent;
    const targets = webhooks.filter(({ events }) => events.includes(kind)).map(({ name }) => name);
    const isMailed =
      'mailTo' in siteEvent &&
      siteEvent.mailTo !== undefined &&
      isMailAddress(siteEvent.mailTo) &&
      mailAfterMs !== undefined &&
      siteEvent.endedAt - siteEvent.createdAt >= mailAfterMs &&
      takesOne(siteEvent.mailTo);
    if (targets.length === 0 && !isMailed) return [];
    const data = dataOf(siteEvent, options);
    const common = {
      event: randomUUID(),
      kind,
      sender: senderOf(siteEvent),
      subject: subjectOf(siteEvent).slice(0, longestSubject).toWellFormed(),
      createdAt: now(),
    };
    return [
      ...targets.map(target => ({ ...common, target, body: JSON.stringify(data) })),
      ...(isMailed
        ? [
            {
              ...common,
              target: mailTarget,
              body: JSON.stringify({ ...data, to: siteEvent.mailTo }),
            },
          ]
        : []),
    ];
  };
}

function subjectOf(siteEvent: SiteEvent): string {
  if ('id' in siteEvent) return siteEvent.id;
  const { repository, digest } = siteEvent;
  const tag = siteEvent.kind === 'image.pushed' ? siteEvent.tags[0] : siteEvent.tag;
  return tag === undefined ? `${repository}@${digest}` : `${repository}:${tag}`;
}

/** Returns whose event it is: the owner of a build, or the user or the team of a repository. */
function senderOf(siteEvent: SiteEvent): string {
  if ('id' in siteEvent) return siteEvent.owner.slice(0, longestSender).toWellFormed();
  const [folder = '', user = ''] = siteEvent.repository.split('/', 2);
  return folder === usersFolder ? `${folder}/${user}` : folder;
}

/** What a message about a build says. */
export interface BuildData {
  readonly id: string;
  readonly image: string;
  readonly succeeded: boolean;
  readonly digest?: string | undefined;
  readonly reason?: string | undefined;
  readonly created: string;
  readonly ended: string;
  /** Seconds. */
  readonly duration: number;
  readonly page: string;
}

/** What a message about a hosted image says. */
export interface ImageData {
  readonly host: string;
  readonly repository: string;
  readonly digest?: string | undefined;
  readonly mediaType?: string | undefined;
  readonly size?: number | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly tag?: string | undefined;
}

function dataOf(siteEvent: SiteEvent, { host, pageOf }: AnnounceOptions): BuildData | ImageData {
  if (!('id' in siteEvent)) {
    const { kind: _, ...image } = siteEvent;
    return { host, ...image };
  }
  const { id, image, succeeded, digest, reason, createdAt, endedAt } = siteEvent;
  return {
    id,
    image,
    succeeded,
    digest,
    reason: reason?.slice(0, longestReason).toWellFormed(),
    created: timeOf(createdAt),
    ended: timeOf(endedAt),
    duration: Math.max(0, endedAt - createdAt) / 1000,
    page: pageOf(id),
  };
}

/** Returns a time as ISO 8601 text, also for a clock outside of the years that it can write. */
export function timeOf(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? new Date(0).toISOString() : date.toISOString();
}
