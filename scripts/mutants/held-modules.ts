/** A module, and the tests that must fail when something in it is changed. */
export interface HeldModule {
  readonly file: string;
  /** Unit tests: they start no servers and take about a second, the fastest first. */
  readonly tests: readonly string[];
  /** What no test needs to notice: a change, as `npm run mutants` prints it, or the name of a constant. With the reason. */
  readonly equal?: readonly (readonly [what: string, reason: string])[];
}

export const heldModules: readonly HeldModule[] = [
  {
    file: 'src/foundation/semaphore.ts',
    tests: ['test/semaphore.test.ts'],
    equal: [
      ['line.lines === this.#low -> true', 'saves a look at the clock'],
      ['line.lines === this.#low ? this.#now() : 0: 0 -> 1', 'is not read'],
      ['line.first === waiter -> true', 'saves a look at all keys'],
      ['line.lines.forgetUnused(line); -> ;', 'saves memory'],
      ['this.forgetUnused(line); -> ;', 'saves memory'],
      // Whether the only key is put in order, or forgotten.
      ...['-> true', '-> this.#lines.size >= 1', '-> this.#lines.size < 1'].map(
        change => [`this.#lines.size > 1 ${change}`, 'saves time'] as const,
      ),
      ...[0, 2].map(to => [`this.#lines.size > 1: 1 -> ${to}`, 'saves time'] as const),
      ['!signal && waitMs === undefined -> false', 'saves a listener'],
      ['waiter.before = undefined; -> ;', 'a caller that has left does not listen any more'],
      // The loop also ends where nobody fits.
      ['this.#waiting > 0 && this.#held < this.#limit -> true', 'saves a look at all keys'],
      [
        'this.#waiting > 0 && this.#held < this.#limit -> this.#waiting > 0 || this.#held < this.#limit',
        'saves a look at all keys',
      ],
      ['this.#waiting > 0 -> this.#waiting >= 0', 'saves a look at all keys'],
      ['this.#held < this.#limit -> this.#held <= this.#limit', 'saves a look at all keys'],
    ],
  },
  { file: 'src/foundation/single-flight.ts', tests: ['test/single-flight.test.ts'] },
  {
    file: 'src/oci/digest.ts',
    tests: ['test/oci/digest.test.ts'],
    equal: [["digest.indexOf(':'): indexOf -> lastIndexOf", 'a digest has one colon']],
  },
  {
    file: 'src/oci/media-type.ts',
    tests: ['test/oci/media-type.test.ts'],
    equal: [["contentType?.split(';', 1): 1 -> 2", 'only the first part is used']],
  },
  {
    file: 'src/upstream/transport/address-guard.ts',
    tests: ['test/upstream/address-guard.test.ts'],
    equal: [
      ["['224.0.0.0', 4]: 4 -> 3", '224.0.0.0/3 is 224.0.0.0/4 and 240.0.0.0/4'],
      ["['240.0.0.0', 4]: 4 -> 3", 'the same network'],
      ["address.replace(/%.*/s, '') -> address", 'lists of addresses ignore zones as well'],
    ],
  },
  { file: 'src/upstream/transport/redirect.ts', tests: ['test/upstream/redirect.test.ts'] },
  { file: 'src/builds/plan/build-key.ts', tests: ['test/builds/build-key.test.ts'] },
  { file: 'src/builds/domain.ts', tests: ['test/builds/trust-domain.test.ts'] },
  { file: 'src/builds/keep-times.ts', tests: ['test/builds/keep-times.test.ts'] },
  {
    file: 'src/builds/target-repository.ts',
    tests: ['test/builds/target-repository.test.ts', 'test/builds/kept-images.test.ts'],
    equal: [
      ["image.tag ?? 'latest': 'latest' -> ''", 'a target has a tag'],
      ["tag = 'latest': 'latest' -> ''", 'a target has a tag'],
      ['pushableMs', 'how long a push counts is tuned'],
      ['boundedCache<string, true>(1000, { ttl: pushableMs }): 1000 -> 999', 'the size of a cache'],
      [
        'boundedCache<string, true>(1000, { ttl: pushableMs }): 1000 -> 1001',
        'the size of a cache',
      ],
    ],
  },
  {
    file: 'src/builds/solve/bases/base-check.ts',
    tests: ['test/builds/recipe-images.test.ts', 'test/builds/base-check.test.ts'],
    equal: [
      ["image.digest ?? image.tag ?? 'latest': 'latest' -> ''", 'a name has a tag or a digest'],
      ['options.target === undefined -> false', 'an undefined target is none'],
      ['shownMs', 'how long an image counts as shown is tuned'],
      [
        'performance.now() - shown.at < shownMs -> performance.now() - shown.at <= shownMs',
        'the same moment',
      ],
      ['error.status >= 500: 500 -> 499', 'no fault has the status 499'],
    ],
  },
  {
    file: 'src/request/tokens/token-registry.ts',
    tests: ['test/request/token-registry.test.ts', 'test/request/run-watch.test.ts'],
    equal: [
      ['responseMs', 'how long a pull waits is tuned'],
      ['cachedBytes', 'the size of a cache'],
      ['mostUnclear', 'the size of a cache'],
      ['1000 + row.body.length: 1000 -> 1001', 'an estimate'],
      ['1000 + row.body.length: 1000 -> 999', 'an estimate'],
      ['1000 + row.body.length -> 1000 - row.body.length', 'an estimate'],
      ...['1000 -> 1001', '1000 -> 999'].map(
        change => [`1000 + 2 * text.length: ${change}`, 'an estimate'] as const,
      ),
      ['1000 + 2 * text.length -> 1000 - 2 * text.length', 'an estimate'],
      ['2 * text.length -> 2 / text.length', 'an estimate'],
      ['2 * text.length: 2 -> 3', 'an estimate'],
      ['2 * text.length: 2 -> 1', 'an estimate'],
      ['changes = 0: 0 -> 1', 'where the count of changes begins, which is only compared'],
      ['changes += 1: 1 -> 2', 'the same count'],
      ['changes += 1 -> changes -= 1', 'the same count'],
      ['ref: false -> (nothing)', 'the process would end a second later'],
      ['unclear.delete(id); -> ;', 'saves a look-up'],
      ['/\\.\\d+Z$/ -> /\\.\\d+Z/', 'a time has one Z'],
    ],
  },
  {
    file: 'src/request/tokens/container-token.ts',
    tests: ['test/request/container-token.test.ts'],
    equal: [
      ['buffer = 0: 0 -> 1', 'what is in the buffer before the first random byte is shifted out'],
    ],
  },
  { file: 'src/request/served-name.ts', tests: ['test/request/find-served.test.ts'] },
  {
    file: 'src/pull/pull-right.ts',
    tests: ['test/pull/pull-right.test.ts'],
    equal: [
      ['keptChecks', 'the size of a cache'],
      ["image.digest ?? image.tag ?? 'latest': 'latest' -> ''", 'a name has a tag or a digest'],
      ['error.status >= 500: 500 -> 499', 'no fault has the status 499'],
    ],
  },
  {
    file: 'src/images/right-watch.ts',
    tests: ['test/images/right-watch.test.ts'],
    equal: [
      ['keptRights', 'the size of a cache'],
      ['longestAskMs', 'how long a pull waits is tuned'],
      ['error.status < 500: 500 -> 499', 'no fault has the status 499'],
    ],
  },
  { file: 'src/pull/blobs/pulled-blob.ts', tests: ['test/pull/pulled-blob.test.ts'] },
  {
    file: 'src/pull/pulled-image.ts',
    tests: ['test/pull/pulled-image.test.ts', 'test/pull/members.test.ts'],
    equal: [
      ['recentBytes', 'the size of a cache'],
      ['bytesOfMember', 'an estimate'],
      ['bytesOfDigest', 'an estimate'],
      ['memberBytes = 0: 0 -> 1', 'an estimate'],
      ['bytesOfMember + mediaType.length -> bytesOfMember - mediaType.length', 'an estimate'],
      ['foundBytes = 0: 0 -> 1', 'an estimate'],
      ['isNew -> true', 'saves work'],
      ['entries.length > 0 -> entries.length >= 0', 'looks at no entries once more'],
    ],
  },
  { file: 'src/pull/blobs/relayed-blobs.ts', tests: ['test/pull/relayed-blobs.test.ts'] },
  { file: 'src/http/registry/blobs/range.ts', tests: ['test/http/range.test.ts'] },
  { file: 'src/http/registry/login/token-scope.ts', tests: ['test/http/token-scope.test.ts'] },
  { file: 'src/http/registry/login/registry-auth.ts', tests: ['test/http/registry-auth.test.ts'] },
  {
    file: 'src/http/registry/hosted/hosted-routes.ts',
    tests: ['test/http/hosted-routes.test.ts'],
    equal: [
      [
        '/^(.+)\\/blobs\\/uploads(?:\\/([^/]*))?$/ -> /(.+)\\/blobs\\/uploads(?:\\/([^/]*))?$/',
        'begins at the first character anyway',
      ],
      [
        '/^(.+)\\/(manifests|blobs|tags|referrers)\\/([^/]+)$/ -> /(.+)\\/(manifests|blobs|tags|referrers)\\/([^/]+)$/',
        'begins at the first character anyway',
      ],
    ],
  },
  { file: 'src/http/gates/access-gate.ts', tests: ['test/http/access-gate.test.ts'] },
  {
    file: 'src/http/gates/own-host.ts',
    tests: ['test/http/host-check.test.ts'],
    equal: [
      ['mostAccepted', 'the size of a cache'],
      ['accepted.size >= mostAccepted -> accepted.size > mostAccepted', 'the same cache'],
      ['accepted.size >= mostAccepted -> accepted.size < mostAccepted', 'the same cache'],
      ['accepted.add(authority); -> ;', 'saves a look-up'],
      ['isIP(name) === 0: 0 -> 1', 'saves a look-up'],
      ['version === 0 -> false', 'a name is in no list of addresses'],
      ['version === 0: 0 -> 1', 'a name is in no list of addresses'],
    ],
  },
  {
    file: 'src/http/gates/foreign-page.ts',
    tests: ['test/http/request-gates.test.ts'],
  },
  {
    file: 'src/http/gates/cross-origin.ts',
    tests: ['test/http/request-gates.test.ts'],
    equal: [['shownHeaders', 'headers of responses that the page may have anyway']],
  },
  {
    file: 'src/http/gates/builder-paths.ts',
    tests: ['test/http/request-gates.test.ts'],
  },
  {
    file: 'src/http/client-address.ts',
    tests: ['test/http/caller.test.ts'],
    equal: [
      [
        "request.headers['x-forwarded-for'] ?? '' -> request.headers['x-forwarded-for']",
        'no address either',
      ],
      ["given.replace(mapped, '') -> given", 'a faster way for IPv4'],
      ["bare = '' -> bare", 'a text always has a first part'],
    ],
  },
  { file: 'src/http/api/within-limit.ts', tests: ['test/http/caller-limits.test.ts'] },
  {
    file: 'src/http/limits/limiter.ts',
    tests: ['test/http/caller-limits.test.ts', 'test/http/limiter.test.ts'],
    equal: [
      ['maxKeys', 'the size of a cache'],
      ['groups.length < exactEvents -> groups.length <= exactEvents', 'one more group'],
      ['at < groups.length -> at <= groups.length', 'without events, none are kept'],
      ['last?.count ?? 0: 0 -> 1', 'the group exists'],
      ['oldest.count === 0 -> false', 'saves memory'],
      ['running.get(key) ?? 1: 1 -> 2', 'the login is counted'],
      ['running.get(key) ?? 1: 1 -> 0', 'the login is counted'],
      ['left > 0 -> true', 'saves memory'],
      ['left > 0 -> left >= 0', 'saves memory'],
      ['exactEvents', 'how many events have groups of their own is tuned'],
    ],
  },
  {
    file: 'src/hosted/rights.ts',
    tests: ['test/hosted/rights.test.ts'],
    equal: [
      [
        'actions.length > most.length -> actions.length >= most.length',
        'rights of one length are the same',
      ],
    ],
  },
  {
    file: 'src/hosted/authenticator.ts',
    tests: ['test/hosted/authenticator.test.ts', 'test/hosted/registry-tokens.test.ts'],
    equal: [
      ['boundedCache<string, IssuedToken>(1000): 1000 -> 1001', 'the size of a cache'],
      ['boundedCache<string, IssuedToken>(1000): 1000 -> 999', 'the size of a cache'],
      ['known.set(text, token); -> ;', 'saves a check of the signature'],
      ['payload.exp ?? 0: 0 -> 1', 'each token has an end'],
    ],
  },
  { file: 'src/hosted/uploads/quota.ts', tests: ['test/hosted/quota-rules.test.ts'] },
  {
    file: 'src/hosted/uploads/reservations.ts',
    tests: ['test/hosted/quota-rules.test.ts'],
    equal: [
      ['sum > 0 -> true', 'forgetting a sum of 0 saves memory'],
      ['sum > 0 -> sum >= 0', 'forgetting a sum of 0 saves memory'],
    ],
  },
  { file: 'src/hosted/uploads/context-repository.ts', tests: ['test/platform/keys.test.ts'] },
  { file: 'src/hosted/accounts/accounts.ts', tests: ['test/platform/keys.test.ts'] },
  {
    file: 'src/upstream/auth/bearer.ts',
    tests: ['test/upstream/bearer.test.ts', 'test/upstream/challenge.test.ts'],
    equal: [
      ['responseShape', 'how large a response may be is tuned'],
      ['responseLimit', 'how large a response may be is tuned'],
      ['defaultLifeSeconds', 'how long a token is used is tuned'],
      [
        'token.length > maxTokenLength -> token.length >= maxTokenLength',
        'how long a token may be is tuned',
      ],
      ['lifeSeconds * 900: 900 -> 899', 'how early a token is renewed is tuned'],
      ['lifeSeconds * 900: 900 -> 901', 'how early a token is renewed is tuned'],
      ['maxTokenLength', 'how long a token may be is tuned'],
    ],
  },
  {
    file: 'src/upstream/credentials.ts',
    tests: ['test/platform/keys.test.ts'],
    equal: [
      ["'identity' -> (nothing)", 'lists of other lengths differ anyway'],
      ["['identity', credentials.token]: 'identity' -> ''", 'lists of other lengths differ anyway'],
      [
        "['password', credentials.username, credentials.password]: 'password' -> ''",
        'lists of other lengths differ anyway',
      ],
    ],
  },
  { file: 'src/platform/grants/grant-key.ts', tests: ['test/platform/keys.test.ts'] },
  {
    file: 'src/platform/identities.ts',
    tests: ['test/platform/keys.test.ts', 'test/platform/identities.test.ts'],
    equal: [
      ["owner.name.toLowerCase().split('@', 1): 1 -> 2", 'only the first part is used'],
      ['knownOwnTokens', 'the size of a cache'],
    ],
  },
  {
    file: 'src/platform/built-in/access-tokens.ts',
    tests: ['test/platform/built-in/built-in-platform.test.ts'],
  },
  { file: 'src/platform/token-rights.ts', tests: ['test/platform/token-rights.test.ts'] },
  {
    file: 'src/platform/credentials/registry-match.ts',
    tests: ['test/platform/registry-match.test.ts'],
    equal: [['scope?.path.length ?? 0: 0 -> 1', 'only scopes that match are sorted']],
  },
  {
    file: 'src/conda/installing/prefix/text-patches.ts',
    tests: ['test/conda/installing/prefix.test.ts'],
    equal: [
      ['source.size < 2 -> source.size <= 2', 'there is nothing to replace in two characters'],
      ['source.size < 2: 2 -> 3', 'there is nothing to replace in two characters'],
      ['at = 0: 0 -> 1', 'the first character of a shebang ends no line'],
      ['at < source.size -> at <= source.size', 'reads nothing once more'],
      ['end + 1: 1 -> 0', 'the end of the line stays, and is not replaced by the same'],
      ['offset % unit === 0 ? 1 : 2: 2 -> 3', 'the same order'],
      ["options = '' -> options", 'the pattern always finds options, maybe empty ones'],
    ],
  },
  {
    file: 'src/conda/installing/prefix/binary-patches.ts',
    tests: ['test/conda/installing/prefix.test.ts'],
    equal: [
      // Strings that begin inside another one of their encoding are left out later as well.
      ['first < (covered[first % unit] ?? 0) -> false', 'saves work'],
      ['covered[first % unit] ?? 0 -> (0)', 'saves work'],
      ['covered[first % unit] ?? 0: 0 -> 1', 'saves work'],
      ['first % unit -> first * unit', 'saves work'],
      ['covered[first % unit] = end; -> ;', 'saves work'],
      ['at < source.size -> at <= source.size', 'reads nothing once more'],
      ['unit === 1 -> false', 'a faster way for bytes'],
      ['unit === 1: 1 -> 0', 'a faster way for bytes'],
      ['startOf(later) < candidate.end -> startOf(later) <= candidate.end', 'they never touch so'],
      [
        'startOf(other) > start -> startOf(other) >= start',
        'both overlap where the starts are equal',
      ],
      ['offsets[0] ?? 0: 0 -> 1', 'a string has an offset'],
      ['index + unit -> index - unit', 'behind the end is no zero'],
      ['isAligned ? 1 : 3: 3 -> 4', 'the same order'],
      ['gap === 0 -> false', 'an empty patch'],
    ],
  },
  {
    file: 'src/conda/installing/prefix/patched-bytes.ts',
    tests: ['test/conda/installing/prefix.test.ts'],
    equal: [
      ['chunkBytes', 'how much is read at once'],
      ["'utf-16-be' -> ''", 'a name in a message'],
      ["['utf-32-le', 4, utf32]: 'utf-32-le' -> ''", 'a name in a message'],
      ["['utf-32-be', 4, text => utf32(text).swap32()]: 'utf-32-be' -> ''", 'a name in a message'],
      ['character.codePointAt(0) ?? 0: 0 -> 1', 'a character has a code'],
      ['0 -> 1', 'a placeholder has at least one byte'],
      ['at < 0: 0 -> 1', 'the zeros before it have an offset, too'],
      ['-1: 1 -> 2', 'any number below 0'],
      ['at < source.size -> at <= source.size', 'reads nothing once more'],
      ['chunkBytes + longest - 1 -> chunkBytes + longest + 1', 'reads more than it looks at'],
      ['chunkBytes + longest - 1: 1 -> 0', 'reads more than it looks at'],
      ['hit >= chunkBytes -> hit > chunkBytes', 'the next chunk would begin with it'],
      ['byte !== 0: 0 -> 1', 'a faster way for zeros'],
      ...['-> true', '-> false', '-> lead < 0', '-> lead > 0', ': 0 -> 1'].map(
        change =>
          [
            `lead <= 0${change.startsWith(':') ? '' : ' '}${change}`,
            'a faster way for zeros',
          ] as const,
      ),
    ],
  },
  { file: 'src/images/sif/runtime/labels.ts', tests: ['test/sif/labels.test.ts'] },
  {
    file: 'src/server/config/read/access-in-force.ts',
    tests: [
      'test/config/access.test.ts',
      'test/config/places.test.ts',
      'test/config/caller-shares.test.ts',
    ],
  },
  { file: 'src/scans/scan-policy.ts', tests: ['test/scans/scan-queue.test.ts'] },
  {
    file: 'src/http/registry/pull-meter.ts',
    tests: ['test/http/pull-meter.test.ts'],
  },
  {
    file: 'src/http/registry/reported-pulls.ts',
    tests: ['test/http/reported-pulls.test.ts', 'test/http/pull-leases.test.ts'],
    equal: [['mostReportedBytes', 'how much a leader reads at once']],
  },
  {
    file: 'src/server/replicas/reads/pull-leases.ts',
    tests: ['test/http/pull-leases.test.ts'],
    equal: [
      ['mostKeys', 'how much memory it takes'],
      ['mostUncounted: 0: 0 -> 1', 'the first reply replaces it'],
    ],
  },
  { file: 'src/pypi/indexes/index-access.ts', tests: ['test/pypi/indexes/index-access.test.ts'] },
  {
    file: 'src/pypi/built/check-built.ts',
    tests: ['test/pypi/check-built.test.ts'],
    equal: [
      ['fileName.slice(0, 200) -> fileName', 'the length of a message'],
      ['fileName.slice(0, 200): 0 -> 1', 'the length of a message'],
      ['fileName.slice(0, 200): 200 -> 201', 'the length of a message'],
      ['fileName.slice(0, 200): 200 -> 199', 'the length of a message'],
    ],
  },
];
