import CCurl
import Foundation

/// Sending a body.
extension EasyHandle {
    /// Sets the options that a transfer with a body needs.
    func setUploadOptions() {
        let context = Unmanaged.passUnretained(self).toOpaque()
        convoy_easy_set_long(easy, CURLOPT_UPLOAD_BUFFERSIZE, 128 << 10)
        convoy_easy_set_pointer(easy, CURLOPT_READDATA, context)
        convoy_easy_set_pointer(easy, CURLOPT_SEEKDATA, context)
        convoy_easy_set_data_callback(easy, CURLOPT_READFUNCTION) { bytes, size, count, context in
            guard let bytes, let handle = EasyHandle.from(context), let owner = handle.owner else {
                return Int(CURL_READFUNC_ABORT)
            }
            let buffer = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
            switch owner.easyHandle(handle, fill: buffer) {
            case .bytes(let count): return count
            case .notNow: return Int(CURL_READFUNC_PAUSE)
            case .abort: return Int(CURL_READFUNC_ABORT)
            }
        }
        convoy_easy_set_seek_callback(easy) { context, offset, origin in
            guard offset == 0, origin == SEEK_SET, let handle = EasyHandle.from(context), let owner = handle.owner
            else { return Int32(CURL_SEEKFUNC_CANTSEEK) }
            return owner.easyHandleMustRewind(handle) ? Int32(CURL_SEEKFUNC_OK) : Int32(CURL_SEEKFUNC_FAIL)
        }
    }
}
