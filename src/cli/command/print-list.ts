/** Prints long lists entry by entry, as lines or as one JSON document. */
export interface Listing {
  /** Prints an entry of a list; all entries of one list come before those of the next. */
  entry(list: string, value: object, line: string): void;
  /** Prints the rest. */
  end(members: object, line: string): void;
}

/** @param lists the names of all lists, in the order in which they come */
export function createListing(isJson: boolean, lists: readonly string[]): Listing {
  if (!isJson) {
    return {
      entry: (_list, _value, line) => console.log(line),
      end: (_members, line) => console.log(line),
    };
  }
  let opened = -1;
  let hasEntry = false;
  const openUpTo = (position: number) => {
    while (opened < position) {
      const start = opened < 0 ? '{' : `${hasEntry ? '\n  ' : ''}],`;
      opened += 1;
      hasEntry = false;
      process.stdout.write(`${start}\n  ${JSON.stringify(lists[opened])}: [`);
    }
  };
  return {
    entry(list, value) {
      openUpTo(lists.indexOf(list));
      process.stdout.write(`${hasEntry ? ',' : ''}\n    ${JSON.stringify(value)}`);
      hasEntry = true;
    },
    end(members) {
      openUpTo(lists.length - 1);
      const rest = Object.entries(members).map(
        ([name, value]) => `,\n  ${JSON.stringify(name)}: ${JSON.stringify(value)}`,
      );
      process.stdout.write(`${hasEntry ? '\n  ' : ''}]${rest.join('')}\n}\n`);
    },
  };
}
