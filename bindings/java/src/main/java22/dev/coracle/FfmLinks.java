package dev.coracle;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** Handles of C functions, each linked at its first call: linking all of them takes a noticeable part of a program's start. */
abstract class FfmLinks {
    private final SymbolLookup library;
    private final MethodHandle[] links;

    FfmLinks(SymbolLookup library, int count) {
        this.library = library;
        links = new MethodHandle[count];
    }

    /** Two threads may link a function at once: either handle is good. */
    final MethodHandle link(int at, String name, String shape) {
        MethodHandle made = links[at];
        if (made == null) {
            made = Linker.nativeLinker().downcallHandle(symbol(library, name), descriptor(shape));
            links[at] = made;
        }
        return made;
    }

    static MemorySegment symbol(SymbolLookup library, String name) {
        return library.find(name).orElseThrow(() -> new UnsatisfiedLinkError("no symbol " + name));
    }

    /** A shape has a letter for the answer, and one for each argument: v nothing, s 16 bits, i 32 bits, j 64 bits. */
    static FunctionDescriptor descriptor(String shape) {
        MemoryLayout[] arguments = new MemoryLayout[shape.length() - 1];
        for (int at = 0; at < arguments.length; at++) {
            arguments[at] = layout(shape.charAt(at + 1));
        }
        return shape.charAt(0) == 'v' ? FunctionDescriptor.ofVoid(arguments) : FunctionDescriptor.of(layout(shape.charAt(0)), arguments);
    }

    private static MemoryLayout layout(char letter) {
        return switch (letter) {
            case 's' -> ValueLayout.JAVA_SHORT;
            case 'i' -> ValueLayout.JAVA_INT;
            default -> ValueLayout.JAVA_LONG;
        };
    }

    /** A call of C throws nothing of its own. */
    static RuntimeException failed(Throwable thrown) {
        if (thrown instanceof Error error) {
            throw error;
        }
        return thrown instanceof RuntimeException known ? known : new IllegalStateException(thrown);
    }
}
