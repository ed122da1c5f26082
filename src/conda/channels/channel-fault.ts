import { Fault, type FaultOptions } from '../../foundation/fault.ts';
import { faultOfError } from '../../upstream/index.ts';
import { closedAddressIn } from '../../upstream/transport/index.ts';

/** A file of a channel that could not be fetched. */
export class ChannelFault extends Fault {
  /** The status that the channel answered; undefined when it did not answer. */
  readonly responseStatus: number | undefined;
  /** The package that asks for the channel, where the list of channels does not. */
  readonly askedBy: string | undefined;

  constructor(
    message: string,
    responseStatus: number | undefined,
    { askedBy, ...options }: FaultOptions & { readonly askedBy?: string | undefined } = {},
  ) {
    super(
      responseStatus === undefined ? 'upstream-unusable' : statusKind(responseStatus),
      message,
      {
        phase: 'upstream',
        ...options,
      },
    );
    this.responseStatus = responseStatus;
    this.askedBy = askedBy;
  }
}

/** True when the channel itself is at fault and may be well again later: it did not answer, or answered 429 or 5xx. */
export function isPassing(error: unknown): boolean {
  if (!(error instanceof ChannelFault)) return false;
  const { responseStatus } = error;
  return responseStatus === undefined || responseStatus === 429 || responseStatus >= 500;
}

/** Returns the fault for a status that is not a success. */
export function statusFault(channel: string, file: string, status: number): ChannelFault {
  const remedy =
    status === 401 || status === 403
      ? ': the operator can give it credentials with channels in the configuration'
      : status === 404 || status === 410
        ? ': check the name or the address of the channel'
        : ': try later';
  return new ChannelFault(
    `The channel ${channel} answered ${status} for ${file}${remedy}`,
    status,
    status === 401 || status === 403 ? { phase: 'credentials' } : {},
  );
}

/** Returns the fault for a request without a response. */
export function silenceFault(channel: string, host: string, file: string, error: unknown): Fault {
  const closed = closedAddressIn(error);
  if (closed) {
    return new Fault(
      'bad-request',
      `The channel ${channel} is at a loopback, private or otherwise closed network address (${host}), which is refused: the operator can allow it with channels and allowPrivateAddress in the configuration`,
      { phase: 'upstream', cause: error },
    );
  }
  if (error instanceof Fault) {
    return new ChannelFault(`The channel ${channel}: ${error.message}`, undefined, {
      cause: error,
    });
  }
  const fault = faultOfError(error, { registry: host }, { what: file }, `The channel ${channel}`);
  const advice = fault.message.replaceAll(
    /registries\.[^ ,]{1,300}?\.(ca|plainHttp)/g,
    'channels.*.$1',
  );
  return new ChannelFault(advice, undefined, { cause: error });
}

function statusKind(status: number) {
  return status === 401 || status === 403 || status === 404 || status === 410
    ? 'bad-request'
    : 'upstream-unusable';
}
