/** The colors in which a terminal would show a line. Pure. */

/** A part of a line in one style. */
export interface StyledPart {
  text: string;
  /** Classes of `style/output.css`: `jp-dtf-fg-1` to 15, `jp-dtf-bg-…`, `jp-dtf-bold` and the like. */
  className: string;
  /** Colors beyond the basic sixteen. */
  colour?: string;
  ground?: string;
}

interface Style {
  fg: string;
  bg: string;
  flags: ReadonlySet<string>;
}

const PLAIN: Style = { fg: '', bg: '', flags: new Set() };
const FLAGS: Readonly<Record<number, string>> = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse' };
const ENDS: Readonly<Record<number, readonly string[]>> = {
  22: ['bold', 'dim'],
  23: ['italic'],
  24: ['underline'],
  27: ['inverse']
};

// A sequence with parameters (its final byte gives the type), an operating system command, a short sequence, or a
// character.
// eslint-disable-next-line no-control-regex
const TOKENS = /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[^]/gu;

/** The styled parts of a raw line; null if it has no colors, or contains other control sequences. */
export function styledParts(raw: string, text: string): StyledPart[] | null {
  if (!raw.includes('\x1b[')) {
    return null;
  }
  const cells: { character: string; style: Style }[] = [];
  let style = PLAIN;
  let place = 0;
  for (const [token, parameters, final] of raw.matchAll(TOKENS)) {
    if (token.startsWith('\x1b')) {
      style = final === 'm' ? after(style, parameters ?? '') : style;
    } else if (token === '\r') {
      place = 0;
    } else if (token === '\b') {
      cells.splice(Math.max(0, place - 1), 1);
      place = Math.max(0, place - 1);
    } else {
      cells[place] = { character: token, style };
      place += 1;
    }
  }
  if (cells.every(cell => cell.style === PLAIN) || cells.map(cell => cell.character).join('') !== text) {
    return null;
  }
  const parts: StyledPart[] = [];
  let last: Style | null = null;
  for (const { character, style } of cells) {
    if (last === style) {
      parts[parts.length - 1]!.text += character;
    } else {
      parts.push({ text: character, ...drawn(style) });
      last = style;
    }
  }
  return parts;
}

/** The style after a sequence of SGR codes (ECMA-48), with the colors of xterm and ITU T.416. */
function after(style: Style, parameters: string): Style {
  const codes = parameters.split(';');
  let { fg, bg } = style;
  const flags = new Set(style.flags);
  for (let i = 0; i < codes.length; i++) {
    const [number, ...arguments_] = codes[i]!.split(':').map(Number) as [number, ...number[]];
    if (number === 38 || number === 48 || number === 58) {
      // A group contains its arguments; otherwise the codes that follow are arguments. 58 is the underline color.
      const isGroup = codes[i]!.includes(':');
      const { colour, used } = isGroup ? grouped(arguments_) : extended(codes.slice(i + 1).map(Number));
      i += isGroup ? 0 : used;
      if (number === 38) {
        fg = colour ?? fg;
      } else if (number === 48) {
        bg = colour ?? bg;
      }
    } else if (number === 0) {
      [fg, bg] = ['', ''];
      flags.clear();
    } else if (number === 4 && arguments_[0] === 0) {
      flags.delete('underline');
    } else if (FLAGS[number] !== undefined) {
      flags.add(FLAGS[number]);
    } else if (ENDS[number] !== undefined) {
      ENDS[number].forEach(flag => flags.delete(flag));
    } else if (number === 39) {
      fg = '';
    } else if (number === 49) {
      bg = '';
    } else {
      const [tens, ones] = [Math.floor(number / 10), number % 10];
      if ((tens === 3 || tens === 9) && ones < 8) {
        fg = String(ones + (tens === 9 ? 8 : 0));
      } else if ((tens === 4 || tens === 10) && ones < 8) {
        bg = String(ones + (tens === 10 ? 8 : 0));
      }
    }
  }
  return { fg, bg, flags };
}

interface Extended {
  /** Undefined if no known color was given: the current color is kept. */
  colour?: string;
  used: number;
}

/** A color given in one group: `2:space:r:g:b`, the space often empty, or, as some programs write it, `2:r:g:b`. */
function grouped([kind, ...values]: readonly number[]): Extended {
  return extended(kind === 2 && values.length > 3 ? [kind, ...values.slice(1)] : [kind ?? 0, ...values]);
}

/** One of xterm's 256 colors or an RGB color, and how many numbers were consumed. */
function extended(numbers: readonly number[]): Extended {
  if (numbers[0] === 2) {
    return { colour: rgb(numbers[1] ?? 0, numbers[2] ?? 0, numbers[3] ?? 0), used: 4 };
  }
  if (numbers[0] !== 5) {
    return { used: 1 };
  }
  const index = Math.min(255, numbers[1] ?? 0);
  if (index < 16) {
    return { colour: String(index), used: 2 };
  }
  if (index >= 232) {
    const grey = 8 + 10 * (index - 232);
    return { colour: rgb(grey, grey, grey), used: 2 };
  }
  const level = (value: number) => (value === 0 ? 0 : 55 + 40 * value);
  const cube = index - 16;
  return { colour: rgb(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)), used: 2 };
}

function rgb(red: number, green: number, blue: number): string {
  return `rgb(${[red, green, blue].map(value => Math.min(255, value)).join(', ')})`;
}

function drawn({ fg, bg, flags }: Style): Omit<StyledPart, 'text'> {
  const classes = [...flags].map(flag => `jp-dtf-${flag}`);
  const part: Omit<StyledPart, 'text'> = { className: '' };
  for (const [value, name, field] of [
    [fg, 'fg', 'colour'],
    [bg, 'bg', 'ground']
  ] as const) {
    if (value.startsWith('rgb')) {
      part[field] = value;
    } else if (value !== '') {
      classes.push(`jp-dtf-${name}-${value}`);
    }
  }
  part.className = classes.join(' ');
  return part;
}
