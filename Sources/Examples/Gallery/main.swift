// Shows the pictures of a folder on a web server, or of a JSON feed, and downloads those that you want to keep.
//
//     swift run --traits GTK Gallery https://example.com/photos/
#if GTK
import CGTK
import Foundation

do {
    guard let options = try GalleryOptions(CommandLine.arguments.dropFirst()) else {
        print(GalleryOptions.usage)
        exit(0)
    }
    guard gtk_init_check() != 0 else {
        throw GalleryOptions.Mistake("There is no display: Gallery needs a graphical session, or DISPLAY to be set.")
    }
    let gallery = Gallery(options)
    exit(gallery.run())
} catch {
    FileHandle.standardError.write(Data("Gallery: \(error)\n".utf8))
    exit(2)
}
#else
import Foundation

FileHandle.standardError.write(Data("Gallery needs GTK 4: swift run --traits GTK Gallery URL\n".utf8))
exit(2)
#endif
